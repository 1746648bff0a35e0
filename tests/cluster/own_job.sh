#!/usr/bin/env bash
# A job that mn-new-job has begun, built with the installed mn by install.new_job, trains under srun and sbatch on two
# nodes as it does under mpiexec.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
own=$build/tests/own-job/fit/build/fit
[ -x "$own" ] || { echo "not run: there is no $own (install.new_job makes it)"; exit 77; }
cp "$own" job
mnlaunch=$build/mnlaunch

ran mpiexec.txt timeout 120 "${on_vn1[@]}" mpiexec -n 2 --bind-to none "$mnlaunch" ./job --epoch 2 --out mpiexec
ran srun.txt timeout 120 srun -K -N2 --ntasks-per-node=1 "$mnlaunch" ./job --epoch 2 --out srun
same_log mpiexec/log srun/log

job=$(MN_BUILD_DIR=$build submit "$checkout/slurm/train.sbatch" ./job --epoch 2) || fail "sbatch: $(cat train-*.txt)"
same_log mpiexec/log "train-$job/log"
rm -f train-*.txt
! MN_BUILD_DIR=$build submit "$checkout/slurm/train.sbatch" || fail "sbatch without a job"
grep -q '^usage: sbatch slurm/train.sbatch JOB' train-*.txt || fail "no usage: $(cat train-*.txt)"

# What cluster.requeue shows of slurm/mnist.sbatch holds for this one: the commands are the same.
commands() { sed -n '/^export SRUN_CPUS/,$p' "$checkout/slurm/$1.sbatch"; }
same 'the commands of train.sbatch' "$(commands mnist)" "$(commands train | sed 's|"\$job" --out|jobs/mnist --out|')"
echo "the same under mpiexec, srun and sbatch"
