#!/usr/bin/env bash
# `cmake --install` into an empty prefix; then another project finds the package, builds the four-line port and trains
# with two ranks; then the installed programs and an installed example run by themselves.
set -euo pipefail
unset LD_LIBRARY_PATH MN_DATA
work=$MN_BUILD_DIR/tests/install-test
prefix=$work/prefix
rm -rf "$work"
mkdir -p "$work/empty"

step() { "$@" >"$work/output" 2>&1 || { cat "$work/output"; echo "FAILED: $*"; exit 1; }; }

# Before all is built: one line names the command that builds the rest, and nothing is installed.
step cmake -S "$MN_SOURCE_DIR" -B "$work/unbuilt" -G Ninja -DBUILD_TESTING=OFF -DMN_TORCH=OFF -DMN_CUDA=OFF
! cmake --install "$work/unbuilt" --prefix "$work/nothing" >"$work/output" 2>&1 && [ ! -e "$work/nothing" ] &&
  grep -q "mn is not built completely (.*): run .cmake --build $work/unbuilt., then install again" "$work/output" ||
  { cat "$work/output"; echo "FAILED: an installation of what is not built"; exit 1; }

step cmake --install "$MN_BUILD_DIR" --prefix "$prefix"
for path in bin/mnlaunch bin/mnlaunch-selftest bin/mnshard bin/jobs/mnist include/mn/mn.hpp include/mn/comm/communicator.hpp \
  include/mn/data/dataset.hpp share/mn/data/mnist/train/manifest.h5 share/mn/slurm/mnist.sbatch \
  share/man/man1/mnlaunch.1 share/man/man1/mnshard.1 share/doc/mn/README.md share/doc/mn/CITATION.cff share/doc/mn/docs/tutorial.md \
  share/mn/examples/regression.cpp share/mn/slurm/train.sbatch share/modulefiles/mn bin/mn-new-job \
  share/mn/jobs/imagenet/recipes/convnext_tiny.ini share/bash-completion/completions/mnlaunch \
  share/bash-completion/completions/mnist share/zsh/site-functions/_mnist; do
  [ -e "$prefix/$path" ] || { echo "FAILED: $path is not installed"; exit 1; }
done
# Nothing installed may need the checkout, libtorch included.
! grep -rI --exclude-dir=site-packages -- "$MN_SOURCE_DIR/" "$prefix/lib" "$prefix/include" || { echo "FAILED: paths of the checkout"; exit 1; }
for program in "$prefix"/bin/mnlaunch* "$prefix"/bin/jobs/*; do
  ! { readelf -d "$program"; ldd "$program" | grep -v "$prefix/"; } | grep -e "$MN_SOURCE_DIR/" -e 'not found' ||
    { echo "FAILED: $program needs the checkout"; exit 1; }
done

compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$MN_BUILD_DIR/CMakeCache.txt")
step cmake -S "$(dirname "$0")/consumer" -B "$work/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix"
step cmake --build "$work/consumer"
# One example of the installed ones: it calls HDF5, too. All of them are configured.
step cmake -S "$prefix/share/mn/examples" -B "$work/examples" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix"
step cmake --build "$work/examples" --target own_hdf5

cd "$work/empty"
export MN_TEST_TIMEOUT=100
mpiexec=$MN_SOURCE_DIR/tests/support/mpiexec
# The program lies elsewhere, and finds the data sets of the installation that it was built with.
step "$mpiexec" 2 "$work/consumer/train"
grep -q '^2 ranks, 300 steps, loss 0\.[0-9]*$' "$work/output" || { cat "$work/output"; echo "FAILED: the port"; exit 1; }
step "$work/consumer/classify"
grep -qx 'logits \[2, 7\]' "$work/output" || { cat "$work/output"; echo "FAILED: mn::models"; exit 1; }
# One line for a program that loads another libtorch, and one for a project that finds another.
status=0
"$work/consumer/other_libtorch" >"$work/output" 2>&1 || status=$?
[ "$status $(wc -l <"$work/output")" = '126 1' ] && grep -q 'compiled with libtorch 2\.[0-9.]*, but has loaded libtorch 1\.2\.3: ' "$work/output" ||
  { cat "$work/output"; echo "FAILED: another libtorch: status $status"; exit 1; }
include=$work/other/include/torch
mkdir -p "$include/headeronly" "$include/csrc/api/include/torch"
: >"$include/csrc/api/include/torch/torch.h"
printf '#define TORCH_VERSION_%s\n' 'MAJOR 2' 'MINOR 99' >"$include/headeronly/version.h"
! cmake -S "$MN_SOURCE_DIR/tests/install/consumer" -B "$work/other/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$prefix" -DTorch_ROOT="$work/other" >"$work/output" 2>&1 &&
  tr -s '\n ' ' ' <"$work/output" | grep -q "this mn was built with libtorch 2\.[0-9]*, and $work/other is libtorch 2\.99: " ||
  { cat "$work/output"; echo "FAILED: find_package takes another libtorch"; exit 1; }
step "$mpiexec" 2 "$prefix/bin/mnlaunch" jobs/mnist --epoch 1 --unit 10
[ -s result/log ] || { cat "$work/output"; echo "FAILED: no result/log"; exit 1; }
step "$mpiexec" 2 "$work/examples/own_hdf5"
grep -q '^bias 0\.2[45]' "$work/output" || { cat "$work/output"; echo "FAILED: the installed example"; exit 1; }
