#!/usr/bin/env bash
# Healthy nodes give no finding, however busy they are, in MN_HEALTHY_STARTS starts (20) by all kinds of srun.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
starts=${MN_HEALTHY_STARTS:-20}
kinds=(pmix none pmi2)

# More than the machine has CPUs; the nodes share them.
for _ in $(seq "$(($(nproc) + 2))"); do
  (while :; do :; done) &
done

silent=0
for ((i = 0; i < starts; ++i)); do
  status=0
  timeout -k 5 120 srun -Q --mpi="${kinds[i % 3]}" -N2 --ntasks-per-node=2 "$build/mnlaunch" --check strict true >out 2>&1 ||
    status=$?
  [ $status = 0 ] && [ ! -s out ] && silent=$((silent + 1)) || { echo "start $i: status $status"; cat out; }
done
echo "$silent of $starts starts under load were silent"
[ $silent = "$starts" ] || fail 'a healthy job is not silent'
