#!/usr/bin/env bash
# Faults made on one node: mnlaunch names each with its host and a remedy on one line and starts nothing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch
selftest=$build/mnlaunch-selftest
cc=$(command -v gcc || command -v cc) || { echo "not run: needs a C compiler, gcc or cc"; exit 77; }
"$cc" -shared -fPIC -o shim.so "$cluster/shim.c" -ldl
on_vn2=("$cluster/two_nodes" in vn2)

# expect NAME STATUS PATTERN COMMAND…: one line that matches PATTERN must come in 5 s, with a remedy behind a semicolon,
# and the job must end with STATUS.
expect() {
  local name=$1 wanted=$2 pattern=$3 seen=0 job
  shift 3
  echo "$name"
  : >err
  timeout -k 5 60 "$@" >out 2>err &
  job=$!
  within 5 grep -qE "^mnlaunch: $pattern.*; " err || fail "$name: no line \"$pattern\" in 5 s: $(cat out err)"
  wait $job || seen=$?
  [ "$(grep -cE "^mnlaunch: $pattern.*; " err)" = 1 ] || fail "$name: no line \"$pattern\" in: $(cat out err)"
  [ "$seen" = "$wanted" ] || fail "$name: status $seen, not $wanted: $(cat out err)"
}
# fault NAME STATUS PATTERN SETUP OPTIONS PROGRAM…: SETUP is what rank 1's shell does first.
fault() {
  local name=$1 wanted=$2 pattern=$3 setup=$4
  shift 4
  expect "$name" "$wanted" "$pattern" srun -Q -N2 --ntasks-per-node=1 bash -c \
    "if [ \$SLURM_PROCID = 1 ]; then $setup; fi; exec \"\$0\" \"\$@\"" "$mnlaunch" "$@"
}

echo healthy
timeout 60 srun -Q -N2 --ntasks-per-node=2 "$mnlaunch" --check strict true >out 2>&1 || fail "healthy: $(cat out)"
[ ! -s out ] || fail "a false alarm: $(cat out)"

# Folders of one node only, for what is not shared.
for node in vn1 vn2; do
  "$cluster/two_nodes" in $node mkdir -p /tmp/local
  "$cluster/two_nodes" in $node cp "$selftest" /tmp/local/job
done
"${on_vn2[@]}" cp "$mnlaunch" /tmp/local/job
fault 'another build' 78 'error \[program\] vn2: the build of the program is' : /tmp/local/job
"${on_vn2[@]}" rm /tmp/local/job
"$cluster/two_nodes" in vn1 cp /bin/true /tmp/local/tool
expect 'no program, without PMIx' 78 'error \[program\] vn2: program .*was not found' \
  srun -Q --mpi=none -N2 --ntasks-per-node=1 "$mnlaunch" /tmp/local/tool
"${on_vn2[@]}" touch /tmp/local/file
expect 'no folder for output' 2 'rank 1 on vn2: --output: cannot make' \
  srun -Q -N2 --ntasks-per-node=1 "$mnlaunch" --output /tmp/local/file true
fault 'no program' 78 'error \[program\] vn2: .*not found' : /tmp/local/job
"${on_vn2[@]}" sh -c 'cp /bin/true /tmp/local/tool; mount -o remount,noexec /tmp'
fault 'a file system without programs' 78 'error \[program\] vn2: /tmp/local/tool may not be run here: .*noexec' : /tmp/local/tool
"${on_vn2[@]}" mount -o remount,exec /tmp

echo 'int helper(void) { return 0; }' >helper.c
echo 'int helper(void); int main(void) { return helper(); }' >main.c
mkdir -p libs
"$cc" -shared -fPIC -o libs/libhelper.so helper.c
"$cc" -o needs_helper main.c -Llibs -lhelper
export LD_LIBRARY_PATH=$work/libs
fault 'a library missing' 78 'error \[unresolved\] vn2: the program needs libhelper.so' 'unset LD_LIBRARY_PATH' ./needs_helper
unset LD_LIBRARY_PATH

# shellcheck disable=SC2016
fault 'another PATH' 78 'warning \[environment\] vn2: PATH is' 'PATH=/opt/other/bin:$PATH' --check strict true
"${on_vn2[@]}" sh -c 'echo other >/tmp/local/data'
"$cluster/two_nodes" in vn1 sh -c 'echo these >/tmp/local/data'
fault 'another data file' 78 'error \[files\] vn2: the hash of /tmp/local/data' : --check-file /tmp/local/data true

fault 'results on a folder of its own' 78 'warning \[output\] vn2: the folder of results, /tmp/local, is not' \
  : --check strict true --out /tmp/local

# Hardware as it is not here, under a root of its own.
mkdir -p hardware/sys/class/infiniband/mlx5_0/ports/1 hardware/dev/shm hardware/proc/driver/nvidia hardware/proc/sys/kernel/random
echo '1000.0 1.0' >hardware/proc/uptime
echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23' >hardware/proc/driver/nvidia/version
echo '4,1,999000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.' >hardware/dev/kmsg
"$cluster/two_nodes" in vn1 cat /proc/sys/kernel/random/boot_id >hardware/proc/sys/kernel/random/boot_id
fault 'a broken GPU' 78 'warning \[gpu-health\] vn2: .*GPU 0000:3b:00 XID 79' "export MN_HARDWARE_ROOT=$work/hardware" \
  --check strict true
fault 'one machine as two nodes' 78 'warning \[machines\] vn\[1-2\]: ' "export MN_HARDWARE_ROOT=$work/hardware" \
  --check strict true
# A port of a network card that is down on one node, as sysfs tells it. The same without its check, and as a warning.
for node in up down; do
  mkdir -p hardware.$node/{proc,dev/shm} hardware.$node/sys/class/infiniband/mlx5_0/ports/1
  echo '400 Gb/sec (4X NDR)' >hardware.$node/sys/class/infiniband/mlx5_0/ports/1/rate
done
echo '4: ACTIVE' >hardware.up/sys/class/infiniband/mlx5_0/ports/1/state
echo '1: DOWN' >hardware.down/sys/class/infiniband/mlx5_0/ports/1/state
export MN_HARDWARE_ROOT=$work/hardware.up
fault 'a link that is down' 78 'error \[fabric\] vn2: the network port mlx5_0/1 is DOWN' \
  "export MN_HARDWARE_ROOT=$work/hardware.down" --skip memlock true
fault 'a link that is down, as a warning' 0 'warning \[fabric\] vn2: the network port mlx5_0/1 is DOWN' \
  "export MN_HARDWARE_ROOT=$work/hardware.down" --skip memlock --warn fabric true
unset MN_HARDWARE_ROOT

# A copy that was cut off has the build id of the whole.
"$cluster/two_nodes" in vn1 cp "$selftest" /tmp/local/job
"${on_vn2[@]}" sh -c 'head -c -1000 "$1" >/tmp/local/job; chmod +x /tmp/local/job' - "$selftest"
fault 'a copy that was cut off' 78 'error \[program\] vn2: the size of the program is' : /tmp/local/job
"${on_vn2[@]}" rm /tmp/local/job

fault 'small memlock' 78 'error \[memlock\] vn2: locked memory is limited' \
  "ulimit -l 64; export MN_HARDWARE_ROOT=$work/hardware" true

"${on_vn2[@]}" mount -o remount,size=1m /dev/shm
fault 'full /dev/shm' 78 'error \[shm\] vn2: /dev/shm has [01] MiB free' : true
"${on_vn2[@]}" mount -o remount,size=50% /dev/shm

sed 's/^.*[[:space:]]vn2\b.*/127.0.0.1 vn2/' /etc/hosts >hosts.vn2
"${on_vn2[@]}" mount --bind "$work/hosts.vn2" /etc/hosts
fault 'a loopback name' 78 'error \[address\] vn2: .*resolves to 127.0.0.1' : true
"${on_vn2[@]}" umount /etc/hosts

sed 's/^.*[[:space:]]vn2\b.*/192.168.7.2 vn2/' /etc/hosts >hosts.vn2
"${on_vn2[@]}" ip addr add 192.168.7.2/24 dev eth0
"${on_vn2[@]}" mount --bind "$work/hosts.vn2" /etc/hosts
fault 'a name on another network' 0 'warning \[network\] vn2: its address lies in 192.168.7.0/24' : true
"${on_vn2[@]}" umount /etc/hosts
"${on_vn2[@]}" ip addr del 192.168.7.2/24 dev eth0

# shellcheck disable=SC2016
OMP_NUM_THREADS=4 fault 'a narrow mask' 78 'warning \[affinity\] vn2: ranks may use 1 CPUs, but are to run 4 threads' \
  'taskset -cp 0 $$ >/dev/null' --check strict true

export LD_PRELOAD=$work/shim.so
fault 'a wrong clock' 78 'error \[clock\] vn2: the clock is 60 s behind' 'export MN_TEST_CLOCK=-60' true
fault 'a blocked port' 78 'error \[connect\] vn2: no TCP connection to vn1' 'export MN_TEST_BLOCK=1' true
unset LD_PRELOAD

expect 'srun without PMIx' 78 'error \[mpi\] vn\[1-2\]: the program links Open MPI, but srun gave it no PMIx server' \
  srun -Q --mpi=none -N2 --ntasks-per-node=1 "$mnlaunch" "$selftest"

if command -v mpicc.mpich >/dev/null; then
  echo '#include <mpi.h>
    int main(int c, char** v) { MPI_Init(&c, &v); return MPI_Finalize(); }' >mpi.c
  mpicc.mpich -o mpich mpi.c
  expect 'MPICH under Open MPI' 78 'error \[mpi\] vn\[1-2\]: the program links MPICH' \
    "${on_vn1[@]}" mpiexec -n 2 -host vn1:1,vn2:1 "$mnlaunch" "$work/mpich"
else
  echo 'MPICH under Open MPI: left out, no mpicc.mpich'
fi

echo 'a rank that never comes'
# It stays away until the other one has left, 20 s at most.
rm -f left
# shellcheck disable=SC2016
seen=0
MN_LAUNCH_TIMEOUT=2 timeout 30 srun -Q -N2 --ntasks-per-node=1 bash -c \
  'if [ $SLURM_PROCID = 0 ]; then "$0" true; seen=$?; touch left; exit $seen; fi
   for _ in $(seq 200); do [ ! -e left ] || exit 0; sleep 0.1; done' "$mnlaunch" >out 2>err || seen=$?
[ $seen != 0 ] && grep -q 'error \[tasks\] vn2: rank 1 of 2 did not arrive in 2 s' err || fail "absent rank: $(cat err)"

echo 'a rank that is killed'
for _ in 1 2 3; do
  # shellcheck disable=SC2016
  MN_LAUNCH_TIMEOUT=1 timeout 30 srun -Q -N2 --ntasks-per-node=1 sh -c '[ $SLURM_PROCID != 0 ] || kill -9 $$; exec "$0" true' \
    "$mnlaunch" >out 2>err || true
  grep -q '^mnlaunch: rank 1 on vn2: mnlaunch on vn1 did not arrive in 1 s; ' err || fail "a killed rank: $(cat out err)"
done

# Between nodes it is munge that tells the job's launchers from others.
# divided NODE COMMAND MESSAGE: COMMAND on that node keeps munge from knowing the job there; long before the time-out all end
# alike, with one line.
divided() {
  local seen=0 begin=$SECONDS
  echo "$2 on node $1"
  # shellcheck disable=SC2016
  timeout 50 srun -Q --mpi=none -N2 --ntasks-per-node=2 unshare --mount sh -c \
    '[ $SLURM_NODEID != '"$1"' ] || '"$2"'; exec "$0" true' "$mnlaunch" >out 2>err || seen=$?
  [ $seen = 78 ] && [ $((SECONDS - begin)) -lt 25 ] && [ "$(grep -c '^mnlaunch: ' err)" = 1 ] &&
    grep -q "^mnlaunch: a rank on vn2: it cannot prove that it is of this job: munge $3" err ||
    fail "$2: status $seen after $((SECONDS - begin)) s: $(cat out err)"
}
divided 1 'mount -t tmpfs tmpfs /run/munge' 'answers on vn1; '
divided 0 'mount -t tmpfs tmpfs /run/munge' 'does not answer on vn1, '
# shellcheck disable=SC2016
divided 1 'exec setpriv --reuid=65534 --clear-groups "$0" true' 'answers on vn1; '

echo doctor
MN_DOCTOR_TIMEOUT=240 OMPI_MCA_mpi_yield_when_idle=1 timeout 280 \
  srun -Q -N2 --ntasks-per-node=2 "$mnlaunch" --doctor --json >out 2>err || fail "doctor: $(cat out err)"
python3 - <<'PYTHON' || fail "doctor: $(cat out)"
import json
report = json.load(open("out"))
assert report["healthy"] and report["findings"] == [], report
assert [(p["from"], p["to"]) for p in report["self_test"]["pairs"]] == [("vn1", "vn2")], report
assert report["self_test"]["ring"] == report["self_test"]["allreduce"] == "passed", report
PYTHON
