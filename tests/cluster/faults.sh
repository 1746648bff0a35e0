#!/usr/bin/env bash
# Faults of nodes, of the network between them, and of Slurm, on three virtual nodes. To be run by hand:
# tests/cluster/faults.sh CASE [TRIALS]
#   supervise  a node dies at a random moment under mnlaunch supervise, 8 ranks and a spare node: trains again, as
#              undisturbed; with SILENT=1 it dies without closing its connections
#   network    packets between two nodes vanish; a node's link goes down: the rank is named in 70 s, and all end
#   slurmd     the slurmd of a node dies beside a step: nothing comes of it
#   ends       a rank of a step exits, or dies of SIGSEGV or SIGKILL: named in 2 s, all gone in 10 s
#   requeue, scancel, preempt, walltime    of a batch job, at a random moment: the next start ends as undisturbed
export NODES=3
[ -e /run/mn-cluster ] || "$(dirname "${BASH_SOURCE[0]}")/two_nodes" down  # the case before may have left a node without its slurmd
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch training=$build/tests/small_training trials=${2:-20}
export mnlaunch training MN_DEVICE=cpu

cat >train.sbatch <<'BATCH'
#!/bin/bash
trap : HUP USR1 USR2 TERM
srun --mpi=pmix --kill-on-bad-exit=0 --wait=60 "$mnlaunch" "$training" "$@"
status=$?
[ "$(squeue -h -j "$SLURM_JOB_ID" -o '%T %r')" != 'COMPLETING None' ] || exit $status  # cancelled
case $status in 75 | 129 | 138 | 140 | 143) scontrol requeue "$SLURM_JOB_ID" ;; esac
exit $status
BATCH
cat >supervised.sbatch <<'BATCH'
#!/bin/bash
"$mnlaunch" supervise --spares 1 --restarts 9 -- srun --ntasks-per-node=4 --mpi=pmix "$mnlaunch" "$training" "$@"
BATCH

weights() { sed -n 's/^weights //p' "$@"; }
is_over() { [[ $(scontrol show job "$1") =~ JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) ]]; }
is_back() { [ "$(squeue -h -o %T -j "$1")" = PENDING ]; }
is_cleared() { ! compgen -G "/run/spool.*/stepd.slurm.pmix.$1.*" >/dev/null; }
all_idle() { [ "$(sinfo -h -o '%t %D')" = 'idle 3' ]; }
wait_a_moment() { sleep "$(awk -v most="$1" -v seed=$RANDOM 'BEGIN {srand(seed); print rand() * most}')"; }
failures=0
# check WHAT COMMAND…
check() {
  "${@:2}" && return
  failures=$((failures + 1))
  echo "FAILED: $1: $(cat out.txt)" >&2
}
ends_as() { [ "$(weights out.txt | tail -n 1)" = "$1" ]; }

# start_job OPTIONS…: of 2 ranks on 2 nodes, some 7 s long.
start_job() { sbatch --parsable -N2 --ntasks-per-node=1 --requeue --open-mode=append --output=out.txt "$@" train.sbatch out 60 5 100; }
starts_again() {
  within 90 is_back "$1" || { check 'it goes back into the queue' false; return; }
  within 60 is_cleared "$1" || check 'its sockets go' false
  sleep 2
  # A job that is not quite over can't be told yet, one that has begun needs not.
  may_start() { scontrol update JobId="$1" StartTime=now 2>/dev/null || ! is_back "$1"; }
  within 60 may_start "$1" || check 'it starts again' false
}

requeue() {
  job=$(start_job)
  wait_a_moment 9
  scontrol requeue "$job" || true  # it may be over
  is_over "$job" || starts_again "$job"
  within 120 is_over "$job" || check 'it ends' false
}
scancel_it() {
  job=$(start_job)
  wait_a_moment 9
  scancel "$job"
  within 90 is_over "$job" || check 'it ends' false
  within 60 is_cleared "$job" || check 'its sockets go' false
  job=$(start_job)
  within 120 is_over "$job" || check 'the next ends' false
}
preempt() {
  job=$(start_job)
  wait_a_moment 9
  timeout 120 srun -Q -p urgent -N3 --exclusive sleep 1
  is_over "$job" || starts_again "$job"
  within 120 is_over "$job" || check 'it ends' false
}
walltime() {
  job=$(sbatch --parsable -N2 --ntasks-per-node=1 --requeue --open-mode=append --time=1 --output=out.txt train.sbatch out 700 50 100)
  within 120 is_back "$job" || check 'it goes back into the queue' false
  has_begun() { ! is_back "$job"; }
  rests() { is_back "$job" || is_over "$job"; }
  for ((starts = 1; starts < 5; ++starts)); do  # beside other work two may not be enough
    starts_again "$job"
    within 60 has_begun || check 'it begins' false
    within 120 rests || check 'it ends, or goes back into the queue' false
    ! is_over "$job" || return 0
  done
  check 'it ends' false
}

# batch FUNCTION ITERATIONS EVERY: so many trials, each from an empty folder.
batch() {
  srun -Q -N2 --ntasks-per-node=1 "$mnlaunch" "$training" undisturbed "$2" "$3" 0 >undisturbed.txt
  for ((trial = 1; trial <= trials; ++trial)); do
    rm -rf out out.txt
    "$1"
    check "$1 $trial" ends_as "$(weights undisturbed.txt)"
    within 60 all_idle || check 'the nodes are idle again' false
  done
  echo "$1: $trials trials, $failures failures"
}

is_gone() { ! grep -qsv "^[0-9]* (.*) [ZX]" "/proc/$1/stat"; }  # a process closes its connections before it is a zombie
# kill_node NODE: all but what is needed to start it again. Its kernel closes the connections, unless SILENT is set.
kill_node() {
  local pid killed=()
  [ -z "${SILENT:-}" ] || ip link set "v-$1" down
  for pid in $(ip netns pids "$1"); do
    if [[ ! $(readlink "/proc/$pid/exe") =~ sshd$ ]] && kill -9 "$pid" 2>/dev/null; then killed+=("$pid"); fi
  done
  for pid in "${killed[@]}"; do within 10 is_gone "$pid" || true; done  # a busy machine takes its time
  sleep 0.2
  ip link set "v-$1" down
}
start_slurmd() {
  local pid
  for pid in $(ip netns pids "$1"); do
    if [[ $(readlink "/proc/$pid/exe") =~ sshd$ ]]; then break; fi
  done
  setsid nsenter -t "$pid" --net --uts --mount slurmd -D -N "$1" >/dev/null 2>&1 &
}
start_node() {
  ip link set "v-$1" up
  start_slurmd "$1"
  sleep 1
  scontrol update NodeName="$1" State=DOWN Reason=test
  within 20 scontrol update NodeName="$1" State=RESUME 2>/dev/null || true  # it may be back already
}

supervise() {
  srun -Q -N2 --ntasks-per-node=4 "$mnlaunch" "$training" undisturbed 80 5 0 >undisturbed.txt
  for ((trial = 1; trial <= trials; ++trial)); do
    rm -rf out out.txt
    job=$(sbatch --parsable --no-kill -N3 --ntasks-per-node=4 --output=out.txt supervised.sbatch out 80 5 100)
    within 60 compgen -G 'out/ckpt/step-*/manifest.json' >/dev/null || check 'a checkpoint' false
    wait_a_moment 5
    kill_node vn2
    over() { grep -qE '^mnlaunch supervise: (ends with|gives up)' out.txt; }
    within 120 over || check 'it ends' false
    check "node $trial" ends_as "$(weights undisturbed.txt)"
    grep -E '^mnlaunch supervise: (trains again|gives up)' out.txt || true
    scancel "$job"
    start_node vn2
    within 90 all_idle || check 'the nodes are idle again' false
  done
  echo "supervise: $trials trials, $failures failures"
}

# network_fault NAME BREAK MEND
network_fault() {
  local begin
  rm -rf out out.txt
  srun -Q -N2 --ntasks-per-node=1 "$mnlaunch" "$training" out 100000 100000 50 >out.txt 2>&1 &
  within 60 has_ranks "$training" 2 || check 'two ranks' false
  sleep 3
  $2
  begin=$SECONDS
  within 90 grep -q 'lost rank' out.txt || check "$1: a rank is named" false
  echo "$1: named after $((SECONDS - begin)) s: $(grep -m1 'lost rank' out.txt)"
  begin=$SECONDS
  within 30 has_ranks "$training" 0 || check "$1: all end" false
  echo "$1: gone $((SECONDS - begin)) s later"
  $3
  wait || true
  scancel --quiet --user=root
  within 120 all_idle || check 'the nodes are idle again' false
}
address_of() { awk -v node="$1" '$2 == node {print $1}' /etc/hosts; }
network() {
  network_fault 'blackhole route' "ip -n vn2 route add blackhole $(address_of vn1)/32" "ip -n vn2 route del blackhole $(address_of vn1)/32"
  network_fault 'link down' 'ip link set v-vn2 down' 'ip link set v-vn2 up'
  echo "network: $failures failures"
}

slurmd_dies() {
  job=$(start_job)
  within 60 compgen -G 'out/ckpt/step-*/manifest.json' >/dev/null || check 'a checkpoint' false
  kill -9 "$(cat /run/vn2.pid)"
  sleep 2
  start_slurmd vn2
  within 120 is_over "$job" || check 'it ends' false
}

# one_end HOW RANK: "NAMED GONE", the seconds from the fault until the rank is named and until the step is over.
one_end() {
  local named=99 gone stamp
  srun -Q -N2 --ntasks-per-node=2 --mpi=pmix --kill-on-bad-exit=0 "$mnlaunch" "$build/tests/failing_job" "$1" "$2" 2>&1 |
    while IFS= read -r line; do
      if [[ $line == *"mn: rank "* && $line == *"rank $2 "* ]]; then
        date +%s.%N >named.txt
        echo "$line" >out.txt
      fi
    done || true
  gone=$(date +%s.%N) stamp=$(stat -c %.9Y stamp)
  [ ! -e named.txt ] || named=$(<named.txt)
  awk -v stamp="$stamp" -v named="$named" -v gone="$gone" 'BEGIN {printf "%.2f %.2f\n", named - stamp, gone - stamp}'
}
ends() {
  local how trial named gone
  export MN_FAILING_STAMP=$PWD/stamp
  for how in exit segv kill; do
    : >ends.txt
    for ((trial = 0; trial < trials; ++trial)); do
      rm -f named.txt stamp
      echo 'nobody was named' >out.txt
      read -r named gone < <(one_end "$how" $((trial % 4)))
      echo "$named $gone" >>ends.txt
      in_time() { awk -v named="$named" -v gone="$gone" 'BEGIN {exit !(named >= 0 && named <= 2 && gone <= 10)}'; }
      check "$how of rank $((trial % 4)): named after $named s, gone after $gone s" in_time
    done
    awk -v how="$how" '{if ($1 > named) named = $1; if ($2 > gone) gone = $2}
      END {printf "%s: named in %s s, gone in %s s at most of %d\n", how, named, gone, NR}' ends.txt
  done
  echo "ends: $((3 * trials)) trials, $failures failures"
}

case ${1:-} in
  supervise | network | ends) "$1" ;;
  requeue) batch requeue 60 5 ;;
  scancel) batch scancel_it 60 5 ;;
  preempt)
    sed -i 's/^PartitionName=main .*/& PriorityTier=1\nPartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9\nPreemptType=preempt\/partition_prio\nPreemptMode=REQUEUE/' \
      /etc/slurm/slurm.conf
    scontrol reconfigure
    batch preempt 60 5
    ;;
  walltime) batch walltime 700 50 ;;
  slurmd) batch slurmd_dies 60 5 ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
exit $((failures > 0))
