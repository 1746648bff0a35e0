#!/usr/bin/env bash
# mnlaunch under Open MPI 5, whose PMIx is another than the system's: the wheel that cmake/setup --python installs, or the
# one in MN_OPEN_MPI_5.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prefix=${MN_OPEN_MPI_5:-$MN_BUILD_DIR/torch-env}
[[ $("$prefix/bin/mpiexec" --version 2>/dev/null) == *'(Open MPI) 5.'* ]] || { echo "no Open MPI 5 in $prefix (cmake/setup --python)"; exit 77; }
export PATH=$prefix/bin:$PATH OMP_NUM_THREADS=1
run() { timeout -k 5 60 mpiexec --oversubscribe -n 3 "$@" >out 2>err; }

run "$mnlaunch" --show true || fail "--show: $(cat out err)"
[ "$(awk '$1 ~ /^[0-9]+$/ {print $1, $3, $4}' out)" = $'0 0 0\n1 1 0\n2 2 0' ] && grep -q 'PMIx prterun' out ||
  fail "the table: $(cat out err)"

mpicc -o mpi "$MN_SOURCE_DIR/tests/support/hello_mpi.c"
run "$mnlaunch" ./mpi || fail "an MPI program: $(cat out err)"
[ "$(sort out)" = $'0 of 3, RANK 0\n1 of 3, RANK 1\n2 of 3, RANK 2' ] || fail "an MPI program: $(cat out err)"

seen=0
run env MN_LAUNCH_TIMEOUT=2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 20; exec "$0" true' "$mnlaunch" || seen=$?
[ $seen = 78 ] && grep -q 'rank 1 of 3 did not arrive in 2 s' err || fail "an absent rank: status $seen, $(cat err)"

# Under a Slurm step without a PMIx server the ranks would come up as jobs of one each, without a word.
for rank in 0 1; do
  (
    seen=0
    timeout 60 env SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_NODEID=0 SLURM_GTIDS=0,1 \
      SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 "$mnlaunch" ./mpi >out.$rank 2>err.$rank || seen=$?
    echo $seen >exit.$rank
  ) &
done
wait
[ "$(cat exit.0 exit.1)" = $'78\n78' ] && [ ! -s out.0 ] && [ ! -s out.1 ] && [ ! -s err.1 ] ||
  fail "a step without PMIx: $(cat exit.? out.? err.?)"
[ "$(grep -c 'error \[mpi\] .*srun gave it no PMIx server; add --mpi=pmix' err.0)" = 1 ] && [ "$(wc -l <err.0)" = 1 ] ||
  fail "a step without PMIx: $(cat err.0)"
