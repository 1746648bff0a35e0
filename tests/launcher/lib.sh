# Sourced by this folder's tests: a fresh folder as the current one, and fail.
# shellcheck shell=bash
set -euo pipefail
mnlaunch=$MN_BUILD_DIR/mnlaunch
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
