#!/usr/bin/env bash
# cmake/setup: quiet and quick where nothing is missing; without root it lists what is, and how to get it.
set -euo pipefail
work=$MN_BUILD_DIR/tests/setup-test
rm -rf "$work"
mkdir -p "$work/bin" "$work/a checkout/cmake"
fail() { echo "FAILED: $*"; exit 1; }

# Everything is there: this build was made by it, or has all that it asks for.
said=$(cd / && env -u CI "$MN_SOURCE_DIR/cmake/setup" --build-dir "$MN_BUILD_DIR" --no-build 2>&1) || fail "$said"
[ -z "$said" ] || fail "not quiet when nothing is missing: $said"

"$MN_SOURCE_DIR/cmake/setup" --help >"$work/output" && grep -q '^usage: ' "$work/output" || fail '--help'
status=0
"$MN_SOURCE_DIR/cmake/setup" --nosuch >"$work/output" 2>&1 || status=$?
[ "$status $(wc -l <"$work/output")" = "2 1" ] || fail "an unknown option: status $status, $(cat "$work/output")"

# A machine with little more than a shell: other headers, and nothing in PATH but what the script itself needs.
sed 's/header:/header:absent/' "$MN_SOURCE_DIR/cmake/requirements.txt" >"$work/a checkout/cmake/requirements.txt"
cp "$MN_SOURCE_DIR/cmake/setup" "$work/a checkout/cmake/"
for tool in bash cat cut dirname env flock grep id mkdir sed tr; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
status=0
env -i PATH="$work/bin" "$work/a checkout/cmake/setup" --tests >"$work/output" 2>&1 || status=$?
[ $status = 1 ] || fail "status $status: $(cat "$work/output")"
for line in 'Ninja \[ninja-build\]' 'hwloc \[libhwloc-dev\]' 'GoogleTest.*\[libgtest-dev libgmock-dev\]' \
  'apt-get install .*libhdf5-dev.*libgtest-dev' 'module load .*openmpi' 'conda create .*hdf5' 'spack install .*hdf5'; do
  grep -qE "$line" "$work/output" || fail "no line with /$line/ in: $(cat "$work/output")"
done
