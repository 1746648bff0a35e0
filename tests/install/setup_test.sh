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
cp "$MN_SOURCE_DIR/cmake/setup" "$work/a checkout/cmake/"
for tool in bash cat cut dirname env flock grep id mkdir sed sort tr; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
status=0
env -i PATH="$work/bin" "$work/a checkout/cmake/setup" --tests >"$work/output" 2>&1 || status=$?
[ $status = 1 ] || fail "status $status: $(cat "$work/output")"
for line in 'Ninja \[ninja-build\]' 'hwloc \[libhwloc-dev\]' 'GoogleTest.*\[libgtest-dev libgmock-dev\]' \
  'apt-get install .*libhdf5-dev.*libgtest-dev' 'module load .*openmpi' 'conda create .*hdf5' 'spack install .*hdf5'; do
  grep -qE "$line" "$work/output" || fail "no line with /$line/ in: $(cat "$work/output")"
done

# With apt-get and sudo, which drops the environment: what is optional is installed by itself, and may fail.
cat >"$work/bin/apt-get" <<'APT'
#!/usr/bin/env bash
echo "$http_proxy $*" >>"$APT_LOG"
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
  status=0
  env -i PATH="$work/bin" http_proxy=http://proxy:3128 "$work/a checkout/cmake/setup" "$@" -DMN_TORCH=OFF >"$work/output" 2>&1 || status=$?
  [ $status = 1 ] && grep -q 'CMake 3.1 is too old' "$work/output" || fail "status $status: $(cat "$work/output")"
}
set_up --tests
[ "$(grep -c '^http://proxy:3128 .*install' "$work/apt")" -gt 5 ] || fail "apt-get: $(cat "$work/apt")"
grep -q 'install .*libhdf5-dev.*libgtest-dev' "$work/apt" || fail "what is needed in one call: $(cat "$work/apt")"
! grep libhdf5-dev "$work/apt" | grep gnuplot || fail 'one optional package ends all'
grep -q 'going on without gnuplot (OUT/plot.png)' "$work/output" || fail "no warning: $(cat "$work/output")"
grep -q 'install .*slurm-wlm' "$work/apt" || fail "no Slurm: $(cat "$work/apt")"
set_up --tests --no-cluster
! grep 'slurm-wlm' "$work/apt" || fail '--no-cluster installs Slurm'

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
