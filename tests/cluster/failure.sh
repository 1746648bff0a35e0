#!/usr/bin/env bash
# A rank that is killed in mid-epoch ends every other rank, on the other node too, within 10 seconds and with one message
# of ours that names rank and host: the program's last, of whose stderr only Slurm's own lines follow. srun without a PMIx
# server ends at once, with one line.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch
mnist=$(readlink -f "$build/jobs/mnist")

# is_last FILE: no line but Slurm's own follows ours in a job step's stderr.
is_last() { same "$1: lines after ours" '' "$(sed '0,/^mn: /d' "$1" | grep -Ev '^(srun|slurmstepd[^:]*): ')"; }

# fail_one RANKS-A-NODE HOW RANK MESSAGE
fail_one() {
  local per_node=$1 how=$2 rank=$3 message=$4 name=$2-$1
  echo "srun $name"
  for attempt in 1 2 3; do
    ! timeout 30 srun -N2 --ntasks-per-node="$per_node" "$build/tests/failing_job" "$how" "$rank" >"$name.out" 2>"$name.err" ||
      fail "$name: srun exits with 0"
    mpi_init_crashed "$name.err" || break
    [ $attempt -lt 3 ] || fail "$name: MPI_Init crashed three times"
    echo "  MPI_Init crashed: once more"
  done
  [ "$(grep -c '^mn: ' "$name.err")" = 1 ] || { cat "$name.err"; fail "$name: not one message of ours"; }
  grep -q "^mn: rank .*: $message" "$name.err" || { cat "$name.err"; fail "$name: no message \"$message\""; }
  is_last "$name.err"
}

# kill_one NAME VICTIM HOST RANKS COMMAND…: kills rank VICTIM of the job that COMMAND starts.
kill_one() {
  local name=$1 victim=$2 host=$3 ranks=$4 launcher pid killed
  shift 4
  echo "$name"
  timeout 200 "$@" "$mnlaunch" jobs/mnist --epoch 1000 --unit 100 --out "$name" >"$name.txt" 2>"$name.err" &
  launcher=$!
  # The graph is drawn in the first step; an epoch takes seconds.
  within 120 test -s "$name/cg.dot" || { cat "$name.txt" "$name.err"; fail "$name: no step in 120 s"; }
  has_ranks "$mnist" "$ranks" || fail "$name: $(ranks_of "$mnist" | wc -l) ranks instead of $ranks"
  pid=$(ranks_of "$mnist" | sed -n "s/^$victim //p")
  killed=$(date +%s%N)
  kill -9 "$pid"
  within 10 has_ranks "$mnist" 0 || fail "$name: still there after 10 s: $(ranks_of "$mnist")"
  echo "  all gone after $((($(date +%s%N) - killed) / 1000000)) ms"
  ! wait "$launcher" || fail "$name: the launcher exits with 0"
  same "$name: messages of ours that name rank and host" 1 \
    "$(grep '^mn: ' "$name.err" | grep -w "rank $victim" | grep -cw "$host")"
  same "$name: messages of ours" 1 "$(grep -c '^mn: ' "$name.err")"
  case $name in srun*) is_last "$name.err" ;; esac  # mpiexec explains the abort in a page of its own
}

kill_one mpiexec 1 vn2 2 "${on_vn1[@]}" mpiexec -n 2 -host vn1:1,vn2:1 --bind-to none
kill_one mpiexec-root 0 vn1 2 "${on_vn1[@]}" mpiexec -n 2 -host vn1:1,vn2:1 --bind-to none
kill_one srun 1 vn2 2 srun -N2 --ntasks-per-node=1
kill_one srun-root 0 vn1 2 srun -N2 --ntasks-per-node=1
kill_one srun-two-a-node 3 vn2 4 srun -N2 --ntasks-per-node=2

for per_node in 1 2; do
  fail_one $per_node throw 1 'uncaught std::runtime_error: the disk is full'
  fail_one $per_node throw-error all 'shard 3 is damaged'
  fail_one $per_node segv 1 'killed by SIGSEGV'
  fail_one $per_node exit 1 'exit(3) was called on this rank, and not on every other; all ranks end'
  fail_one $per_node kill 1 'lost rank 1 on host vn.: its process died; all ranks end'
  fail_one $per_node kill 0 'lost rank 0 on host vn1: its process died; all ranks end'
done

# die_early RANKS-A-NODE NODES RANK MESSAGE [WRAPPER…]: the rank dies before MPI is up, where mnlaunch's connections tell
# of it.
die_early() {
  local name=early-$1-$2-$3 seen=0 begin=$SECONDS
  echo "srun $name ${*:5}"
  timeout 30 srun -N"$2" --ntasks-per-node="$1" "$mnlaunch" "${@:5}" "$build/tests/failing_job" before-mpi "$3" >"$name.out" 2>"$name.err" || seen=$?
  [ $seen != 0 ] && [ $seen != 124 ] && [ $((SECONDS - begin)) -le 15 ] || fail "$name: status $seen: $(cat "$name.err")"
  same "$name: messages of ours" 1 "$(grep -c '^mn: ' "$name.err")"
  grep -q "^mn: rank .*: lost $4: its process ended before MPI was up; " "$name.err" || fail "$name: $(cat "$name.err")"
}
die_early 2 2 0 'the first rank on host vn1'
die_early 2 2 1 'rank 1 on host vn1'
die_early 2 2 2 'the first rank on host vn2'
die_early 2 2 3 'rank 3 on host vn2'
die_early 3 1 0 'the first rank on host vn1'
# shellcheck disable=SC2016
die_early 2 2 3 'rank 3 on host vn2' sh -c '"$@" || exit 1' -

# Without a PMIx server there is one line of ours, by rank 0.
echo "srun --mpi=none"
for program in "$mnlaunch jobs/mnist" "$build/jobs/mnist"; do
  # shellcheck disable=SC2086
  if timeout 30 srun --mpi=none -N2 $program --out none >none.txt 2>&1; then fail "$program: exits with 0"; fi
  grep -v '^srun: ' none.txt >lines.txt || true
  same "$program: lines without the remedy" '' "$(grep -v 'mpi=pmix' lines.txt)"
  same "$program: lines" 1 "$(wc -l <lines.txt)"
done
