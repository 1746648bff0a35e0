#!/usr/bin/env bash
# The pip package mnlaunch: builds the wheel, installs it in a fresh environment, and starts a torchrun-style script.
set -euo pipefail
work=$MN_BUILD_DIR/tests/wheel
rm -rf "$work"
mkdir -p "$work"
cd "$work"
fail() { echo "FAILED: $*"; exit 1; }

/usr/bin/python3 -m venv builder 2>log || { echo "not run: python3 -m venv: $(tail -1 log)"; exit 77; }
export PIP_DISABLE_PIP_VERSION_CHECK=1
builder/bin/pip -q --retries 0 download --no-deps -d tools scikit-build-core >log 2>&1 || { echo "not run: no network for pip: $(tail -1 log)"; exit 77; }
builder/bin/pip wheel --no-deps -w wheels --config-settings build-dir="$work/build" "$MN_SOURCE_DIR/launcher" >log 2>&1 || fail "pip wheel: $(tail -30 log)"

wheel=$(echo wheels/*)
[[ $wheel =~ ^wheels/mnlaunch-.*-py3-none-manylinux_2_([0-9]+)_$(uname -m).whl$ ]] || fail "the name of $wheel"
glibc=${BASH_REMATCH[1]}
[ "$(stat -c %s "$wheel")" -le $((8 << 20)) ] || fail "$wheel has $(stat -c %s "$wheel") bytes"

/usr/bin/python3 -m venv fresh
fresh/bin/pip install --no-index "$wheel" >log 2>&1 || fail "pip install: $(cat log)"
needed=$(objdump -T fresh/bin/mnlaunch | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
[ "$needed" = "GLIBC_2.$glibc" ] || fail "the tag says glibc 2.$glibc, but mnlaunch needs $needed"
# Newer systems compile with newer symbols.
[ "$(getconf GNU_LIBC_VERSION)" != 'glibc 2.36' ] || [ "$glibc" -le 34 ] || fail "mnlaunch needs $needed, which Red Hat 9 and Ubuntu 22.04 do not have"
others=$(ldd fresh/bin/mnlaunch | grep -vE '^\s*(linux-vdso|libm|libgcc_s|libc|/lib\S*/ld-linux\S*)\.so' || true)
[ -z "$others" ] || fail "mnlaunch needs further libraries: $others"
for file in man/man1/mnlaunch.1 bash-completion/completions/mnlaunch zsh/site-functions/_mnlaunch; do
  [ -s fresh/share/$file ] || fail "no $file"
done
version=$(sed -n 's/^project(mn VERSION \([0-9.]*\).*/\1/p' "$MN_SOURCE_DIR/CMakeLists.txt")
[[ $(fresh/bin/mnlaunch --version) = "mnlaunch $version, "* ]] || fail "--version: $(fresh/bin/mnlaunch --version)"

PATH=$work/fresh/bin:$PATH timeout 60 "$MN_SOURCE_DIR/tests/support/mpiexec" 2 \
  mnlaunch python "$MN_SOURCE_DIR/tests/install/torchrun_style.py" >out 2>errors || fail "mpiexec: $(cat out errors)"
[ "$(sort out | sed -E 's/ [0-9a-f.:]+$//')" = $'0 0 2 2\n1 1 2 2' ] || fail "the script's variables: $(cat out errors)"
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
