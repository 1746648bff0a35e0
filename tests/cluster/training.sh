#!/usr/bin/env bash
# Each way to start trains the same model: the log of mpiexec, srun and sbatch is the same.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch

ran mpiexec.txt timeout 120 "${on_vn1[@]}" mpiexec -n 2 --bind-to none "$mnlaunch" jobs/mnist --epoch 1 --out mpiexec
ran srun.txt timeout 120 srun -K -N2 --ntasks-per-node=1 "$mnlaunch" jobs/mnist --epoch 1 --out srun
same_log mpiexec/log srun/log
if grep "goes with this node" srun.txt; then fail "a folder that all nodes see is not one that goes with a node"; fi

# The batch script unchanged, as a user would submit it.
job=$(MN_BUILD_DIR=$build submit "$checkout/slurm/mnist.sbatch" --epoch 1) || fail "sbatch: $(cat mnist-*.txt)"
same_log mpiexec/log "mnist-$job/log"

# A folder that only one node has.
"$cluster/two_nodes" in vn1 mkdir -p /tmp/local
timeout 120 srun -K -N2 --ntasks-per-node=1 "$mnlaunch" jobs/mnist --epoch 1 --unit 100 --out /tmp/local/out >local.txt 2>&1 || true
grep -q "folder /tmp/local/out is on .*, which goes with this node" local.txt || fail "no warning: $(cat local.txt)"

# No launcher at all.
ran alone.txt timeout 120 "$mnlaunch" jobs/mnist --epoch 1 --unit 100 --out alone
echo "the same under mpiexec, srun and sbatch"
