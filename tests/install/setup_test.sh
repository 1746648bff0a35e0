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
sed 's/header:/header:absent/; s/command:slurmctld/command:absent/' "$MN_SOURCE_DIR/cmake/requirements.txt" >"$work/a checkout/cmake/requirements.txt"
cp -r "$MN_SOURCE_DIR/cmake/"setup* "$work/a checkout/cmake/"
for tool in awk bash cat cut df dirname du env flock grep head id mkdir nproc rm sed sort tr; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
status=0
env -i PATH="$work/bin" "$work/a checkout/cmake/setup" --tests >"$work/output" 2>&1 || status=$?
[ $status = 1 ] || fail "status $status: $(cat "$work/output")"
for line in 'Ninja \[ninja-build\]' 'hwloc \[libhwloc-dev\]' 'GoogleTest.*\[libgtest-dev libgmock-dev\]' \
  'apt-get install .*libhdf5-dev.*libgtest-dev' 'module load .*openmpi' 'conda create .*hdf5' 'spack install .*hdf5'; do
  grep -qE "$line" "$work/output" || fail "no line with /$line/ in: $(cat "$work/output")"
done

# With apt-get and sudo, which drops the environment: all in one call; where that fails, what is optional goes by itself.
cat >"$work/bin/apt-get" <<'APT'
#!/usr/bin/env bash
echo "$http_proxy $*" >>"$APT_LOG"
[[ $* != *install* ]] || echo "0 upgraded, 20 newly installed, 0 to remove and 3 not upgraded."
echo 'Setting up libpng-dev (1) ...'
[[ $* != *gnuplot* ]]
APT
cat >"$work/bin/sudo" <<SUDO
#!/bin/sh
[ "\$1" = -n ] || exec env -i PATH="$work/bin" APT_LOG="$work/apt" "\$@"
SUDO
rm "$work/bin/id"
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
printf '#!/bin/sh\necho cmake version 3.1\n' >"$work/bin/cmake"
chmod +x "$work/bin/"{apt-get,sudo,id,cmake}
# set_up OPTION…: until it finds an old CMake
set_up() {
  rm -f "$work/apt"
  [ "$1" = --again ] && shift || rm -rf "$work/a checkout/build"
  status=0
  env -i PATH="$work/bin" http_proxy=http://proxy:3128 "$work/a checkout/cmake/setup" "$@" -DMN_TORCH=OFF >"$work/output" 2>&1 || status=$?
  [ $status = 1 ] && grep -q 'CMake 3.1 is too old' "$work/output" || fail "status $status: $(cat "$work/output")"
}
set_up --tests
[ "$(grep -c '^http://proxy:3128 .*install' "$work/apt")" -gt 5 ] || fail "apt-get: $(cat "$work/apt")"
grep -q 'install .*libhdf5-dev.*libgtest-dev.*gnuplot' "$work/apt" || fail "all in one call: $(cat "$work/apt")"
grep 'install .*libhdf5-dev.*libgtest-dev' "$work/apt" | grep -qv gnuplot || fail 'one optional package ends all'
grep -q 'going on without gnuplot (OUT/plot.png)' "$work/output" || fail "no warning: $(cat "$work/output")"
grep -q 'install .*slurm-wlm' "$work/apt" || fail "no Slurm: $(cat "$work/apt")"
set_up --again --tests
! grep gnuplot "$work/apt" || fail 'what cannot be had is tried at each set-up'
set_up --tests --no-cluster
! grep 'slurm-wlm' "$work/apt" || fail '--no-cluster installs Slurm'

# Packages and libtorch arrive side by side; a log shows how far they are, in whole lines. The environment is completed
# where it lacks what is asked for, and is otherwise left alone.
cat >"$work/bin/python3" <<'PYTHON'
#!/usr/bin/env bash
case "$*" in
  '-m venv '*) mkdir -p "$3/bin" "$3/lib"; cp "$0" "$3/bin/python" ;;
  *' pip '*)
    echo "$* ${PYTHONPATH:-}" >>"$PIP_LOG"
    [ -z "${PIP_FAILS:-}" ] || { : >"$APT_DONE"; exit 1; }
    echo half >"$TMPDIR/half"
    for wait in $(seq 300); do [ ! -e "$APT_DONE" ] || break; sleep 0.1; done
    [ -e "$APT_DONE" ] || exit 1 ;;
esac
PYTHON
cat >"$work/bin/apt-get" <<'APT'
#!/usr/bin/env bash
[[ $* = *install* ]] || exit 0
echo '0 upgraded, 20 newly installed, 0 to remove and 3 not upgraded.'
echo 'Setting up libpng-dev (1) ...'
for wait in $(seq 200); do
  [ ! -e "$APT_DONE" ] && ! grep -q 'set up; libtorch' "$OUTPUT" || break
  sleep 0.1
done
: >"$APT_DONE"
APT
printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
chmod +x "$work/bin/"*
for tool in cp mv seq sleep; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
sed -i 's/show_every=15/show_every=1/' "$work/a checkout/cmake/setup.d/progress.sh"
stamp="$work/a checkout/build/torch-env/stamp"
# fetch WORDS OPTION…: the stamp afterwards begins with WORDS
fetch() {
  local words=$1
  shift
  rm -f "$work/pip" "$work/done"
  env -i PATH="$work/bin" PYTHON="$work/bin/python3" PYTHONPATH=/elsewhere PIP_LOG="$work/pip" APT_DONE="$work/done" \
    OUTPUT="$work/output" \
    PIP_FAILS="${PIP_FAILS:-}" "$work/a checkout/cmake/setup" "$@" >"$work/output" 2>&1 || true
  [[ $(cat "$stamp" 2>/dev/null) = "$words"* ]] || fail "the stamp of $*: '$(cat "$stamp")', not '$words': $(cat "$work/output")"
}
rm -rf "$work/a checkout/build"
PIP_FAILS=yes fetch '' -DMN_CUDA=OFF
[ "$(grep -c 'pip could not install torch' "$work/output")" = 1 ] || fail "no network: $(cat "$work/output")"
fetch '2.11.0 small' -DMN_CUDA=OFF
grep -q 'packages: 1 of 20 set up; libtorch: [0-9]* of [0-9]* MB downloaded' "$work/output" || fail "no progress: $(cat "$work/output")"
! grep -q $'\r' "$work/output" || fail 'carriage returns in a log'
! grep -q /elsewhere "$work/pip" || fail "pip sees another environment: $(cat "$work/pip")"
fetch '2.11.0 python numpy' --python
grep -q torchvision "$work/pip" && grep -q 'completing libtorch' "$work/output" || fail "torchvision: $(cat "$work/pip" "$work/output")"
echo '2.11.0 python' >"$stamp"
fetch '2.11.0 python numpy' --python
grep -q torchvision "$work/pip" || fail 'an environment without torchvision is not completed'
fetch '2.11.0 python numpy' -DMN_CUDA=OFF
[ ! -e "$work/pip" ] || fail "a richer environment is made again: $(cat "$work/pip")"
# Another version is fetched, and stays.
fetch '2.9.1 small' --torch 2.9.1 -DMN_CUDA=OFF
grep -q 'torch==2.9.1' "$work/pip" || fail "--torch: $(cat "$work/pip")"
fetch '2.9.1 small' -DMN_CUDA=OFF
[ ! -e "$work/pip" ] || fail "the version of --torch does not stay: $(cat "$work/pip")"
PIP_FAILS=yes fetch '2.9.1 small' --torch 9.9.9 -DMN_CUDA=OFF  # the libtorch that was there is kept
fetch '2.9.1 small' -DMN_CUDA=OFF
[ ! -e "$work/pip" ] || fail "a version that could not be had stays: $(cat "$work/pip")"

# One line for a machine that can't do it.
# one_line STATUS WORDS COMMAND…
one_line() {
  local wanted=$1 words=$2
  shift 2
  status=0
  "$@" >"$work/output" 2>&1 || status=$?
  [ "$status $(wc -l <"$work/output")" = "$wanted 1" ] && grep -q -- "$words" "$work/output" ||
    fail "not one line with '$words': status $status, $(cat "$work/output")"
}
setup=$MN_SOURCE_DIR/cmake/setup
one_line 2 '--torch needs a version' "$setup" --torch newest
one_line 1 "can't write the build folder /proc/nowhere" "$setup" --build-dir /proc/nowhere
one_line 1 "can't write 16 MB into /dev/nowhere" env TMPDIR=/dev/nowhere "$setup" --build-dir "$work/build"

# An old compiler is refused in one line.
cat >"$work/old.cmake" <<CMAKE
set(CMAKE_CXX_COMPILER clang++)
set(CMAKE_CXX_COMPILER_ID Clang)
set(CMAKE_CXX_COMPILER_VERSION 14.0.6)
include("$MN_SOURCE_DIR/cmake/MnCompiler.cmake")
CMAKE
! cmake -P "$work/old.cmake" >"$work/output" 2>&1 && grep -q 'clang++ is Clang 14.0.6: mn needs' "$work/output" ||
  fail "an old compiler: $(cat "$work/output")"

# Not every source in jobs/ is a job.
for job in options shard common nosuch; do
  status=0
  "$MN_SOURCE_DIR/jobs/run" $job >"$work/output" 2>&1 || status=$?
  [ "$status $(wc -l <"$work/output")" = '2 1' ] && grep -q "there is no job '$job'" "$work/output" ||
    fail "jobs/run $job: status $status, $(cat "$work/output")"
done
