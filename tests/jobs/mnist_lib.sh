# What the tests of jobs/mnist share: a folder to work in, training, and a look at its output.
# shellcheck shell=bash
set -uo pipefail
program=$MN_BUILD_DIR/jobs/mnist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export MN_DATA=$MN_BUILD_DIR/data

die() { echo "FAILED: $*"; [ ! -e output ] || sed 's/^/    /' output; exit 1; }
# train RANKS ARG…: output in ./output.
train() {
  local ranks=$1
  shift
  "$MN_SOURCE_DIR/tests/support/mpiexec" "$ranks" "$program" --device cpu "$@" >output 2>&1 || die "jobs/mnist $*: status $?"
}
has() { grep -qF -- "$1" "${2:-output}" || die "no \"$1\" in ${2:-output}"; }
# log EXPRESSION…: Python expressions over logs, which are read from the named folders, hold.
holds() {
  local expression=$1
  shift
  python3 - "$expression" "$@" <<'PY' || die "$expression"
import json, sys
logs = [json.load(open(f"{folder}/log")) for folder in sys.argv[2:]]
def same(a, b, names=("main/loss", "main/accuracy", "validation/main/loss", "validation/main/accuracy"), tolerance=1e-4):
    return len(a) == len(b) and all(abs(x[n] - y[n]) <= tolerance for x, y in zip(a, b) for n in names)
if not eval(sys.argv[1]):
    sys.exit(f"{json.dumps(logs, indent=1)}")
PY
}
