# Sourced by this folder's tests: a fresh folder as the current one, fail, status, one_line.
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
