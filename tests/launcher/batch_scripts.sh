#!/usr/bin/env bash
# Which ends of a step send a job of slurm/*.sbatch back into the queue. Slurm's commands and mnlaunch are stand-ins.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir bin
printf '#!/bin/sh\ntouch requeued\n' >bin/scontrol
printf '#!/bin/sh\necho 6 RUNNING None; echo 7 "${STATE:-RUNNING}" None\n' >bin/squeue
cat >bin/srun <<'STAND_IN'
#!/bin/sh
printf 'began 5\niteration 9\nsaved %d\n' "$SAVED" >"$MN_STATUS_FILE"
exit "$STATUS"
STAND_IN
printf '#!/bin/sh\n' >bin/mnlaunch
chmod +x bin/*
export PATH=$PWD/bin:$PATH SLURM_JOB_ID=7 SLURM_JOB_NAME=job

# ends SCRIPT STATUS SAVED: yes if the job goes back after a step that began at iteration 5 and has saved SAVED.
ends() {
  rm -f requeued
  STATUS=$2 SAVED=$3 MN_BUILD_DIR=none bash "$1" jobs/mnist >out 2>err
  [ $? = "$2" ] || fail "$*: the script ends with another status: $(cat out err)"
  [ -e requeued ] && echo yes || echo no
}

for script in "$MN_SOURCE_DIR"/slurm/*.sbatch; do
  set +e
  for status in 1 129 137 138 139 140 143; do
    [ "$(ends "$script" $status 7)" = yes ] || fail "$script: not requeued at $status after a checkpoint"
  done
  for status in 1 137 139; do
    [ "$(ends "$script" $status 5)" = no ] || fail "$script: requeued at $status without a checkpoint"
  done
  for status in 129 138 140 143; do
    for start in 1 2 3 4 5; do
      [ "$(ends "$script" $status 5)" = yes ] || fail "$script: not requeued at $status in start $start"
    done
    [ "$(ends "$script" $status 7)" = yes ] || fail "$script: not requeued at $status after a checkpoint"
    for start in 1 2 3 4 5; do
      [ "$(ends "$script" $status 5)" = yes ] || fail "$script: not requeued at $status, $start after a checkpoint"
    done
    [ "$(ends "$script" $status 5)" = no ] || fail "$script: requeued at $status after five starts in vain"
  done
  [ "$(STATE=COMPLETING ends "$script" 143 7)" = no ] || fail "$script: requeued though cancelled"
  [ "$(ends "$script" 75 5)" = yes ] || fail "$script: not requeued at 75"
  for status in 0 2 78 126 127; do
    [ "$(ends "$script" $status 7)" = no ] || fail "$script: requeued at $status"
  done
  set -e
  ! compgen -G '.mn-*' >/dev/null || fail "$script: a file stays: $(echo .mn-*)"
done
