# Sourced by this folder's tests: a fresh folder as the current one, fail, status, one_line, and several ranks.
# shellcheck shell=bash
set -euo pipefail
mnlaunch=$MN_BUILD_DIR/mnlaunch
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run="mpiexec --oversubscribe -n 3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# status WANTED COMMAND…: the command's exit status; its output is left in out and err.
status() {
  local wanted=$1 seen=0
  shift
  timeout -k 5 60 "$@" >out 2>err || seen=$?
  [ "$seen" = "$wanted" ] || fail "$* exits with $seen, not $wanted: $(cat out err)"
}
# one_line TEXT: standard error is this one line, but for what mpiexec adds.
one_line() {
  [ "$(grep -c '^mnlaunch: ' err)" = 1 ] || fail "not one line: $(cat err)"
  grep -q -e "$1" err || fail "no \"$1\" in: $(cat err)"
}
# step COMMAND…: two tasks of one node, as srun --mpi=none starts them; $N is the task's number. Their output is in out
# and err, their exit statuses in exit.0 and exit.1.
step() {
  local n
  steps=$((steps + 1))
  for n in 0 1; do
    (
      export N=$n SLURM_JOB_ID=$$ SLURM_STEP_ID=$steps SLURM_PROCID=$n SLURM_LOCALID=$n SLURM_NODEID=0 SLURM_GTIDS=0,1
      export SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1
      seen=0
      timeout 60 "$@" >out.$n 2>err.$n || seen=$?
      echo $seen >exit.$n
    ) &
  done
  wait
  cat out.0 out.1 >out
  cat err.0 err.1 >err
}
steps=0
# together STATUS COMMAND…: rank N of three runs COMMAND with $N set; all end with STATUS, and there is one line in all.
together() {
  local wanted=$1
  shift
  rm -f exit.*
  # shellcheck disable=SC2016
  $run sh -c 'N=$OMPI_COMM_WORLD_RANK; export N; "$@"; echo $? >"exit.$N"' - "$@" >out 2>err || true
  [ "$(cat exit.0 exit.1 exit.2)" = $wanted$'\n'$wanted$'\n'$wanted ] || fail "$*: statuses $(cat exit.*): $(cat out err)"
}
