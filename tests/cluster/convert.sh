#!/usr/bin/env bash
# mnshard as tasks of srun and as ranks of mpiexec, on two nodes: the bits are those of one process. In a batch script,
# which has a task's variables but is not a task, it is alone.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
convert=("$build/mnshard" idx "$checkout/data/mnist" --shard-mb 4)

# converts NAME OUT COMMAND…: the command made OUT, and one rank said so.
converts() {
  echo "$1"
  ran "$2.txt" timeout -k 5 120 "${@:3}"
  same "$1: summary" 1 "$(grep -c "$2/train: 60000 samples in 12 shards" "$2.txt")"
  diff -r whole "$2" || fail "$1: other bits"
}

ran whole.txt "${convert[@]}" --out whole
converts 'srun' tasks srun -Q -N2 --ntasks-per-node=2 "${convert[@]}" --out "$work/tasks"
converts 'srun --mpi=none' plain srun -Q --mpi=none -N2 -n3 "${convert[@]}" --out "$work/plain"
converts 'srun mnlaunch' launched srun -Q -N2 -n3 "$build/mnlaunch" "${convert[@]}" --out "$work/launched"
printf 'vn1 slots=2\nvn2 slots=2\n' >hostfile
converts 'mpiexec' ranks "${on_vn1[@]}" mpiexec -n 4 --hostfile "$work/hostfile" "${convert[@]}" --out "$work/ranks"

printf '#!/bin/bash\n%s --out %s\n' "${convert[*]}" "$work/batch" >job.sh
submit -N2 --ntasks-per-node=2 -o batch.txt job.sh >/dev/null || fail "the job: $(cat batch.txt)"
diff -r whole batch || fail "batch script: other bits: $(cat batch.txt)"

echo 'a task is killed'
srun -Q -K0 -N2 --ntasks-per-node=2 bash -c '[ $SLURM_PROCID != 3 ] || kill -9 $$; exec "$@"' bash \
  "${convert[@]}" --out "$work/killed" >killed.txt 2>&1 && fail "a killed task: $(cat killed.txt)"
[ -z "$(find killed -name manifest.h5)" ] || fail 'a killed task left a manifest'
converts 'resumed' killed srun -Q -N2 -n3 "${convert[@]}" --out "$work/killed"
