#!/usr/bin/env bash
# Nodes as clouds and strict sites have them: names that lead to no address, so that Slurm alone knows where they are
# (NodeAddr); tasks that Slurm binds to cores of two sockets (task/affinity) and whose GPUs no other task may open (control
# groups of devices); a container in which users have other numbers than outside.
export KIND=cloud CPUS=2
if [ ! -e /run/mn-cluster ]; then
  two_nodes=$(dirname "${BASH_SOURCE[0]}")/two_nodes
  "$two_nodes" possible || exit 77
  [ "$(getconf _NPROCESSORS_ONLN)" -ge $CPUS ] || { echo "needs $CPUS processors"; exit 77; }
  trap '"$two_nodes" down' EXIT
  "$two_nodes" up
  bash -c 'source "$(dirname "$0")/lib.sh"' "${BASH_SOURCE[0]}" && exit 0 || exit $?
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch
four=$'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1'

# well NAME COMMAND…: it succeeds, and mnlaunch says nothing but the note of --show about the key.
well() {
  local name=$1
  shift
  echo "$name"
  timeout -k 5 90 "$@" >out 2>err || fail "$name: $(cat out err)"
  ! grep '^mnlaunch: ' err | grep -v ' note: the key ' || fail "$name: $(cat err)"
}

! getent hosts vn2 || fail 'the name of a node leads to an address'
for mpi in pmix none pmi2; do
  well "srun --mpi=$mpi" srun -Q --mpi=$mpi -N2 --ntasks-per-node=2 "$mnlaunch" --check strict --show true
  same "srun --mpi=$mpi" "$four" "$(placement out)"
done
well 'mpiexec in an allocation' salloc -Q -N2 --ntasks-per-node=2 mpiexec "$mnlaunch" --check strict --show true
same 'mpiexec in an allocation' "$four" "$(placement out)"
mpicc -o mpi "$checkout/tests/support/hello_mpi.c"
echo 'an MPI program'
ran out timeout -k 5 90 srun -Q -N2 --ntasks-per-node=2 "$mnlaunch" ./mpi
same 'an MPI program' "$(for r in 0 1 2 3; do echo "$r of 4, RANK $r"; done)" "$(grep -v ' note: the key ' out | sort)"
python=$build/torch-env/bin/python
if [ -x "$python" ]; then
  well 'Python DDP' srun -Q -N2 --ntasks-per-node=1 "$mnlaunch" "$python" -W ignore "$checkout/tests/launcher/ddp.py"
  grep -q '^2 ranks agree$' out || fail "Python DDP: $(cat out err)"
fi

# As in a container, each rank in namespaces of its own for users and mounts; munge, outside, sees the users as they are.
well 'users with other numbers' srun -Q --mpi=none -N2 --ntasks-per-node=2 \
  unshare --user --map-user=1000 --map-group=1000 --mount "$mnlaunch" --check strict --show true
same 'users with other numbers' "$four" "$(placement out)"
grep -q 'the key by which the nodes know each other is sealed by munge' err || fail "users with other numbers: $(cat err)"

# Each socket has one CPU. Where Slurm has bound a task, that stays; else the ranks of a node divide its sockets.
export HWLOC_SYNTHETIC='package:2 core:1 pu:1'
# shellcheck disable=SC2016
mask='echo "$RANK $(sed -n "s/Cpus_allowed_list:\t//p" /proc/self/status)"'
for bound in cores sockets none; do
  well "cores, --cpu-bind=$bound" srun -Q -N2 --ntasks-per-node=2 --cpu-bind=$bound "$mnlaunch" sh -c "$mask"
  same "cores, --cpu-bind=$bound" $'0 0\n1 1\n2 0\n3 1' "$(sort out)"
done
well 'cores of one rank' srun -Q -N2 --ntasks-per-node=1 --cpus-per-task=2 "$mnlaunch" sh -c "$mask"
same 'cores of one rank' $'0 0-1\n1 0-1' "$(sort out)"
unset HWLOC_SYNTHETIC

# The stand-in of NVML opens the GPUs that Slurm grants, and no others.
[ -e /etc/slurm/cgroup.conf ] || { echo 'GPUs: left out, no control groups of devices'; exit 0; }
unset CUDA_VISIBLE_DEVICES
export LD_LIBRARY_PATH=$build/tests/fake MN_FAKE_GPUS=4 MN_FAKE_DEVICES=/run/gpu
# shellcheck disable=SC2016
gpu='echo "told $RANK $MN_DEVICE $LOCAL_RANK $GROUP_RANK"'
# gpus NAME WANTED TOLD OPTIONS: the table's GPUs, and what the ranks are told
gpus() {
  local name=$1 wanted=$2 told=$3
  shift 3
  echo "$name"
  timeout -k 5 60 srun -Q -N2 --ntasks-per-node=2 "$@" "$mnlaunch" --show sh -c "$gpu" >out 2>err || fail "$name: $(cat out err)"
  same "$name: table" "$wanted" "$(awk '$1 ~ /^[0-9]+$/ {print $1, $6}' out)"
  same "$name" "$told" "$(sed -n 's/^told //p' out | sort)"
}
shared=$'0 cuda:0 0 0\n1 cuda:1 1 0\n2 cuda:0 0 1\n3 cuda:1 1 1'
alone=$'0 cuda:0 0 0\n1 cuda:0 0 1\n2 cuda:0 0 2\n3 cuda:0 0 3'
own=$'0 0000:3b:00.0\n1 0000:3c:00.0\n2 0000:3b:00.0\n3 0000:3c:00.0'
gpus 'GPUs of the node' "$own" "$shared" --gpus-per-node=2 --gpu-bind=none
gpus 'a GPU for each task' "$own" "$alone" --gpus-per-task=1
grep -q 'warning \[gpu-visibility\]' err || fail "GPUs that are hidden from each other: $(cat err)"
gpus 'a map of GPUs' $'0 0000:3c:00.0\n1 0000:3b:00.0\n2 0000:3c:00.0\n3 0000:3b:00.0' "$alone" --gpus-per-node=2 --gpu-bind=map_gpu:1,0
