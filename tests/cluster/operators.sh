#!/usr/bin/env bash
# mnlaunch --node-check as Slurm's Prolog and in its HealthCheckProgram, and --dry-run beside sbatch --test-only.
# shellcheck disable=SC2016
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch

# Files in place of each node's /proc and /sys, and a stand-in for its driver; FAULT.NODE sets what is broken there.
mkdir -p files/dev/shm files/proc/self files/sys/bus/pci/devices/0000:3{b,c}:00.0
for device in files/sys/bus/pci/devices/*; do
  echo 0x030200 >"$device/class"
  echo 0x10de >"$device/vendor"
done
echo gpus=2 >expected
cat >check <<CHECK
#!/bin/bash
cd $work
export MN_HARDWARE_ROOT=$work/files LD_LIBRARY_PATH=$build/tests/fake \$(cat fault.\$SLURMD_NODENAME fault.\$(hostname) 2>/dev/null)
$mnlaunch --node-check --expect expected --skip clock,limits,memlock,tmp >found.\$(hostname)
CHECK
cat >health <<HEALTH
#!/bin/sh
$work/check || scontrol update NodeName="\$(hostname)" State=DRAIN Reason="\$(head -n1 $work/found.\$(hostname))"
HEALTH
chmod +x check health

# configure LINE…: slurm.conf with these lines; without any, as it was.
configuration=$(grep -v '^HealthCheck\|^Prolog' /etc/slurm/slurm.conf)
configure() {
  { echo "$configuration"; printf '%s\n' "$@"; } >/etc/slurm/slurm.conf
  scontrol reconfigure
}
well() {
  configure
  rm -f fault.*
  scontrol update NodeName=vn1,vn2 State=RESUME 2>/dev/null || true
}
trap 'jobs -p | xargs -r kill; scancel --quiet --user=root; well' EXIT
state_of() { sinfo -h -n "$1" -o '%t %E'; }
is_drained() { [[ $(state_of "$1") == dr* ]]; }
is_idle() { [[ $(state_of "$1") == idle* ]]; }
# A check that began before `well` may still drain its node.
has_recovered() {
  ! pgrep -f "$work/check" >/dev/null || return 1
  scontrol update NodeName=vn1,vn2 State=RESUME 2>/dev/null || true
  sleep 1
  is_idle vn1 && is_idle vn2
}
recover() {
  well
  within 60 has_recovered || fail "without a fault: $(sinfo -h -N -o '%N %t %E')"
}
# checked NODE: the program has run there since `rm found.*`.
checked() { [ -e "found.$1" ]; }

# Each fault drains vn2, for a reason with these words, and leaves vn1.
for fault in 'MN_FAKE_GPUS=1 is on the PCI bus, but the driver does not show it' \
  'MN_FAKE_ILL=1 has no spare memory rows left' 'MN_FAKE_HANG=1 the driver of the GPUs does not answer'; do
  echo "HealthCheckProgram: $fault"
  rm -f found.*
  echo "${fault%% *}" >fault.vn2
  configure "HealthCheckProgram=$work/health" HealthCheckInterval=1
  within 60 is_drained vn2 || fail "vn2 is $(state_of vn2): $(cat found.*)"
  [[ $(state_of vn2) == *"${fault#* }"* ]] || fail "another reason: $(state_of vn2)"
  within 60 checked vn1 || fail 'vn1 is not checked'
  is_idle vn1 || fail "vn1 is $(state_of vn1): $(cat found.vn1)"
  recover
done

echo 'Prolog'
configure "Prolog=$work/check"
timeout 60 srun -N2 true || fail "healthy nodes: $(cat found.*)"
echo MN_FAKE_ILL=1 >fault.vn2
! timeout -k 2 30 srun -w vn2 true 2>errors || fail 'vn2 runs a step'
within 60 is_drained vn2 || fail "vn2 is $(state_of vn2): $(cat errors)"
timeout 60 srun -w vn1 true || fail "vn1: $(cat found.vn1)"
recover

echo 'dry-run and sbatch --test-only'
cp "$(type -P true)" program
mkdir jobs bin
for job in mnist imagenet gpt; do cp program "jobs/$job"; done
ln -s "$mnlaunch" bin/
# both STATUS SCRIPT: sbatch accepts (0) or rejects (1) the script, and so does --dry-run.
both() {
  local sbatch=0 dry_run=0
  sbatch --test-only "$2" >sbatch.txt 2>&1 || sbatch=1
  "$mnlaunch" --dry-run "$2" >dry_run.txt 2>&1 || dry_run=$?
  [ "$sbatch $dry_run" = "$1 $1" ] || fail "$2: sbatch $sbatch, --dry-run $dry_run: $(cat -v "$2" sbatch.txt dry_run.txt)"
}
for script in "$checkout"/slurm/*.sbatch; do
  # This cluster has two nodes with four cores each.
  sed 's/--cpus-per-task=.*/--cpus-per-task=1/; s/--nodes=4/--nodes=2/' "$script" >script.sbatch
  both 0 script.sbatch
  [ ! -s dry_run.txt ] || fail "$script: $(cat dry_run.txt)"
done
sound=(-N2 --nodes=1-2 --ntasks=2 '-t 90' --time=1-0:30 --time=1- --time=infinite --mem=100MB '--mem 1g' 
  '--no-requeue --signal=USR1' '--no-requeue --signal=SIGTERM@60' '--no-requeue --signal=65' --gpus-per-node=2 --gres=gpu:2 --exclusive=user '-J "a b" # c' '--comment="$5;(x)"'
  --no-requeue --nodes=1 --mail-type=END)
for options in "${sound[@]}"; do
  printf '#!/bin/sh\n#SBATCH %s\nsrun true\n' "$options" >script.sbatch
  both 0 script.sbatch
done
# The last two rows are faults that only Slurm's controller or its own parser knows.
faults=(--node=2 --ndes=2 '-y 1' requeue '-N 2 x' --output --job-name --nodes=4-2 --nodes=two --ntasks=0 --ntasks-per-node=two
  --cpus-per-task=0 --time=12h --time=1:12:00:00 --time=1.5 --mem=64GiB --mem=1.5G --signal=USR3@60 --signal=X:USR1
  --signal=USR1@1m --gpus=a100: --gpus-per-node=two:x --requeue=1 --requeu=1
  --begin=never --mail-type=SOMETIMES --exclusive=maybe --distribution=odd --gres=foo:1
  --partition=none --nodes=99 --mem=64T --gres=gpu:99 --constraint=x '-C [a|b]' --dependency=foo --array=x)
for options in "${faults[@]}"; do
  printf '#!/bin/sh\n#SBATCH %s\nsrun true\n' "$options" >script.sbatch
  both 1 script.sbatch
  same "$options" 1 "$(wc -l <dry_run.txt)"
done
printf 'true\n' >no-interpreter.sbatch
printf '#!/bin/sh\r\ntrue\r\n' >windows.sbatch
printf '#!/bin/sh\ntrue\0\n' >nul.sbatch
: >empty.sbatch
cp program binary.sbatch
for script in no-interpreter windows nul empty binary; do both 1 $script.sbatch; done
