#!/usr/bin/env bash
# A batch job that is told of its end checkpoints, goes back into the queue and, started again, trains what is left. So
# do one that a signal ends, and one that fails after a checkpoint; one that fails without is over, and so is one that
# scancel ends.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
epochs=10

# restarts JOB: how often Slurm has started it again.
restarts() { scontrol show job "$1" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
waits() { [ "$(restarts "$1")" = "$2" ] && [ "$(squeue -h -o %T -j "$1")" = PENDING ]; }
is_over() { [[ $(scontrol show job "$1") =~ JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) ]]; }
is_cleared() { ! compgen -G "/run/spool.*/stepd.slurm.pmix.$1.*" >/dev/null; }

# goes_back JOB NUMBER: into the queue, for its restart of that number, which then begins.
goes_back() {
  within 30 waits "$1" "$2" || fail "not requeued: $(cat "mnist-$1.txt")"
  # Slurm gives a requeued job two minutes' rest; with none its nodes still hold its credential for revoked, or the socket
  # of its first step, which its next step has the name of.
  within 60 is_cleared "$1" || fail "the first step's sockets stay: $(echo /run/spool.*/stepd.*)"
  sleep 2
  scontrol update JobId="$1" StartTime=now
}

# What mnlaunch and the training do at each start: wait for a signal after a checkpoint; fail after one; end by a signal
# without one; fail without one. The file for their progress is private.
mkdir -p stand-in
cat >stand-in/mnlaunch <<'STAND_IN'
#!/bin/bash
reached() { printf 'began %-20d\niteration %-20d\nsaved %-20d\n' "$@" >"$MN_STATUS_FILE"; }
case ${SLURM_RESTART_COUNT:-0} in
  0)
    [ "$(stat -c '%a %s' "$MN_STATUS_FILE")" = '600 0' ] && [ ! -e "$SLURM_JOB_NAME-$SLURM_JOB_ID.status" ] && touch waits
    reached 0 9 3
    exec sleep 60
    ;;
  1) reached 3 9 5 ;;
  2)
    reached 5 9 5
    kill -USR1 $$
    ;;
esac
exit 1
STAND_IN
chmod +x stand-in/mnlaunch
job=$(MN_BUILD_DIR=$work/stand-in sbatch --parsable --nodes=1 "$checkout/slurm/mnist.sbatch")
within 60 test -e waits || fail "no start in 60 s: $(cat "mnist-$job.txt")"
scancel --signal=USR1 "$job"
goes_back "$job" 1
goes_back "$job" 2
goes_back "$job" 3
within 60 is_over "$job" || fail "not over: $(scontrol show job "$job")"
[[ $(scontrol show job "$job") =~ JobState=FAILED ]] || fail "not failed: $(scontrol show job "$job")"
! compgen -G '.mn-*' || fail "a file stays: $(echo .mn-*)"

rm waits
job=$(MN_BUILD_DIR=$work/stand-in sbatch --parsable --nodes=1 "$checkout/slurm/mnist.sbatch")
within 60 test -e waits || fail "no start in 60 s: $(cat "mnist-$job.txt")"
scancel "$job"
within 60 is_over "$job" || fail "a job that was cancelled is not over: $(scontrol show job "$job")"

job=$(MN_BUILD_DIR=$build sbatch --parsable "$checkout/slurm/mnist.sbatch" --epoch $epochs --unit 100 --batchsize 50)
within 120 test -s "mnist-$job/log" || fail "no epoch in 120 s: $(cat "mnist-$job.txt")"
scancel --signal=USR1 "$job"  # what --signal of the batch script sends before the time limit
goes_back "$job" 1
within 240 is_over "$job" || fail "not over after 240 s: $(cat "mnist-$job.txt")"

same 'epochs in the log' "$(seq -s ' ' $epochs)" \
  "$(python3 -c 'import json, sys; print(*(report["epoch"] for report in json.load(open(sys.argv[1]))))' "mnist-$job/log")"
grep -q 'resumed after iteration' "mnist-$job.txt" || fail "it began from the start: $(cat "mnist-$job.txt")"
[ -s "mnist-$job/model.safetensors" ] || fail "no model: $(cat "mnist-$job.txt")"
