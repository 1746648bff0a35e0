#!/bin/bash
# operators.sh: mnlaunch --node-check with a driver and files of a node that is not there, and --dry-run of a script.
# shellcheck source=tests/launcher/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export MN_HARDWARE_ROOT=$work/root LD_LIBRARY_PATH=$MN_BUILD_DIR/tests/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mkdir -p root/dev/shm root/proc/self root/sys/bus/pci/devices/0000:3{b,c}:00.0
for device in root/sys/bus/pci/devices/*; do
  echo 0x030200 >"$device/class"
  echo 0x10de >"$device/vendor"
done
# This machine's own clock and limits do not count.
check() { status "$1" "$mnlaunch" --node-check --skip clock,limits,memlock,tmp "${@:2}"; }
says() { [ "$(wc -l <out)" = 1 ] && grep -q -e "$1" out || fail "not one line with \"$1\": $(cat out err)"; }

check 0
[ ! -s out ] && [ ! -s err ] || fail "a healthy node: $(cat out err)"
MN_FAKE_GPUS=1 check 1
says 'error \[driver\] .*GPU 0000:3c:00.0 is on the PCI bus, but'
MN_FAKE_GPUS=1 check 0 --warn driver
says 'warning \[driver\]'
MN_FAKE_ILL=1 check 1
says '\[gpu-health\]'
sleep 60 &
MN_FAKE_PROCESS=$! check 1
says 'processes on GPUs that belong to no job: 1'
mkdir -p root/proc/$!
echo "0::/system.slice/slurmstepd.scope/job_7/step_0" >root/proc/$!/cgroup
MN_FAKE_PROCESS=$! check 0
kill $!
MN_FAKE_HANG=1 check 1
says 'the driver of the GPUs does not answer'
printf 'gpus=2\nmount=/shared\n' >expected
check 1 --expect expected
says '\[mounts\] .*/shared is not mounted'
echo 'gups=2' >expected
check 2 --expect expected
one_line 'expected:1: there is no key "gups"; did you mean gpus?'
check 2 --expect nowhere
status 2 "$mnlaunch" --expect expected true
unset MN_HARDWARE_ROOT

mkdir jobs
for job in mnist imagenet gpt; do cp /bin/true jobs/$job; done
for script in "$MN_SOURCE_DIR"/slurm/*.sbatch; do
  status 0 "$mnlaunch" --dry-run "$script"
  [ ! -s out ] || fail "$script: $(cat out)"
done
printf '#!/bin/bash\n#SBATCH -n 2 --time=2h\nsrun mnlaunch true\n' >job
status 1 "$mnlaunch" --dry-run job
[ "$(cut -d' ' -f1 out)" = $'job:2:\njob:3:' ] || fail "lines: $(cat out)"
if "$mnlaunch" --version | grep -q 'Open MPI'; then
  printf '#!/bin/bash\n#SBATCH -n 2\nsrun -K --mpi=pmi2 mnlaunch %s-selftest\n' "$mnlaunch" >mpi.sbatch
  status 1 "$mnlaunch" --dry-run mpi.sbatch
  [[ $(cat out) == 'mpi.sbatch:3: a program of Open MPI under --mpi=pmi2: '* ]] || fail "pmi2: $(cat out)"
fi
status 1 "$mnlaunch" --dry-run none.sbatch
chmod +x job
status 0 $run "$mnlaunch" --dry-run ./job  # under a launcher, it is a program like any other
grep -q '^rank' out || fail "no table: $(cat out err)"
