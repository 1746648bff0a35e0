# Sourced by this folder's tests: runs the script on the login node of the virtual cluster, in a fresh folder.
# Set afterwards: checkout, build (the build tree), work (the fresh folder, seen by all nodes).
# shellcheck shell=bash
set -euo pipefail
cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
checkout=$(cd "$cluster/../.." && pwd -P)
build=${MN_BUILD_DIR:-$checkout/build}

if [ ! -e /run/mn-cluster ]; then
  "$cluster/two_nodes" possible || exit 77
  "$cluster/two_nodes" up
  exec "$cluster/two_nodes" in head bash "$0" "$@"
fi

work=$build/cluster/scratch/$(basename "$0" .sh)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export OMP_NUM_THREADS=1 LC_ALL=C CUDA_VISIBLE_DEVICES=
unset MN_BUILD_DIR MN_SOURCE_DIR MN_TEST_TIMEOUT MN_TEST_PRELOAD  # ctest's, which ranks started through ssh do not get
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# A test that fails half-way leaves nothing running.
trap 'jobs -p | xargs -r kill; scancel --quiet --user=root' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# "${on_vn1[@]}" COMMAND…: as if logged in on that node.
# shellcheck disable=SC2034
on_vn1=("$cluster/two_nodes" in vn1)

# mpi_init_crashed FILE…: Open MPI 4.1's MPI_Init crashes now and then (1 of 300 starts of 4 ranks on 2 busy nodes), as it
# takes a message of a rank that is ahead before it has made its handlers. Of a job that never began there is nothing to see.
mpi_init_crashed() { grep -qs 'Process received signal' "$@" && ! grep -qsE '^(Num process|[0-9]+ vn)' "$@"; }

# ran FILE COMMAND…: its output goes to FILE; all of it is shown if it fails.
ran() {
  local file=$1 attempt
  shift
  for attempt in 1 2 3; do
    ! "$@" >"$file" 2>&1 || return 0
    mpi_init_crashed "$file" || break
    echo "  MPI_Init crashed at attempt $attempt: $*"
  done
  cat "$file"
  fail "$*"
}

# same WHAT WANTED SEEN
same() { [ "$2" = "$3" ] || fail "$1"$'\nwanted:\n'"$2"$'\nseen:\n'"$3"; }

# within SECONDS COMMAND…: repeats the command until it succeeds; false if it does not in that time.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

# run_components SRUN ARGUMENTS…: runs a step of several components; its output goes to the files table and errors. With
# PMIx, the srun of Slurm 22.05 at times hangs after all tasks have ended (pmixp_abort_agent_stop waits for a thread that is
# gone), and only SIGKILL ends srun. That counts as a success: the caller sees in `table` whether every task has run.
run_components() {
  local status=0
  timeout -k 2 30 srun -Q "$@" >table 2>errors || status=$?
  if [ $status = 137 ]; then
    echo '  srun hangs after the end of its tasks'
    scancel --quiet --user=root
  elif [ $status != 0 ]; then
    fail "a step of several components: status $status: $(cat table errors)"
  fi
}

# submit SBATCH ARGUMENTS…: submits, waits for the job's end; prints its number. False if the job failed.
submit() {
  local job attempt
  for attempt in 1 2 3; do
    ! job=$(timeout 300 sbatch --wait --parsable "$@") || { echo "$job"; return 0; }
    if [ -z "$job" ] || ! mpi_init_crashed ./*"$job"*; then break; fi
    echo "  MPI_Init crashed at attempt $attempt: sbatch $*" >&2
  done
  echo "$job"
  return 1
}

# ranks_of PROGRAM: "RANK PID" of each process that runs it, on whatever node: the nodes share their process numbers.
ranks_of() {
  local exe pid rank
  for exe in /proc/[0-9]*/exe; do
    [ "$(readlink "$exe" 2>/dev/null)" = "$1" ] || continue
    pid=${exe#/proc/} pid=${pid%/exe}
    rank=$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^MN_RANK=//p') || continue
    [ -z "$rank" ] || echo "$rank $pid"
  done
}

# within 120 has_ranks PROGRAM NUMBER
has_ranks() { [ "$(ranks_of "$1" | wc -l)" = "$2" ]; }

# placement FILE: rank, host, intra and inter of mnlaunch's table.
placement() { awk '$1 ~ /^[0-9]+$/ {print $1, $2, $3, $4}' "$1"; }

# same_log WANTED SEEN: the reports of two runs agree to 1e-4 in all that depends neither on time nor on overlap, which
# is on between nodes.
same_log() {
  python3 - "$1" "$2" <<'PYTHON' || fail "the logs $1 and $2 differ"
import json, sys
wanted, seen = (json.load(open(path)) for path in sys.argv[1:])
timing = ("elapsed_time", "images_per_second", "bytes_per_step")
assert len(wanted) == len(seen) > 0, f"{len(wanted)} and {len(seen)} reports"
for i, (a, b) in enumerate(zip(wanted, seen)):
    assert a.keys() == b.keys(), f"report {i}: {sorted(a)} and {sorted(b)}"
    for key in a.keys() - set(timing):
        if isinstance(a[key], (int, float)):
            assert abs(a[key] - b[key]) <= 1e-4, f"report {i}: {key} is {a[key]} and {b[key]}"
PYTHON
}
