#!/usr/bin/env bash
# A batch job that is told of its end checkpoints, goes back into the queue and, started again, trains what is left.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
epochs=10

# restarts JOB: how often Slurm has started it again.
restarts() { scontrol show job "$1" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
waits() { [ "$(restarts "$1")" = 1 ] && [ "$(squeue -h -o %T -j "$1")" = PENDING ]; }
is_over() { [[ $(scontrol show job "$1") =~ JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) ]]; }
is_cleared() { ! compgen -G "/run/spool.*/stepd.slurm.pmix.$1.*" >/dev/null; }

job=$(MN_BUILD_DIR=$build sbatch --parsable "$checkout/slurm/mnist.sbatch" --epoch $epochs --unit 100 --batchsize 50)
within 120 test -s "mnist-$job/log" || fail "no epoch in 120 s: $(cat "mnist-$job.txt")"
scancel --signal=USR1 "$job"  # what --signal of the batch script sends before the time limit
within 30 waits "$job" || fail "not requeued: $(cat "mnist-$job.txt")"
# Slurm gives a requeued job two minutes' rest; with none its nodes still hold its credential for revoked, or the socket
# of its first step, which its next step has the name of.
within 60 is_cleared "$job" || fail "the first step's sockets stay: $(echo /run/spool.*/stepd.*)"
sleep 2
scontrol update JobId="$job" StartTime=now
within 240 is_over "$job" || fail "not over after 240 s: $(cat "mnist-$job.txt")"

same 'epochs in the log' "$(seq -s ' ' $epochs)" \
  "$(python3 -c 'import json, sys; print(*(report["epoch"] for report in json.load(open(sys.argv[1]))))' "mnist-$job/log")"
grep -q 'resumed after iteration' "mnist-$job.txt" || fail "it began anew: $(cat "mnist-$job.txt")"
[ -s "mnist-$job/model.safetensors" ] || fail "no model: $(cat "mnist-$job.txt")"
