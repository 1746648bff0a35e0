#!/usr/bin/env bash
# Which ends of a step send a job of slurm/*.sbatch back into the queue. Slurm's commands and mnlaunch are stand-ins.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir bin
printf '#!/bin/sh\ntouch requeued\n' >bin/scontrol
printf '#!/bin/sh\necho RUNNING None\n' >bin/squeue
cat >bin/srun <<'STAND_IN'
#!/bin/sh
printf 'began 5\niteration 9\nsaved %d\n' "$SAVED" >"$MN_STATUS_FILE"
exit "$STATUS"
STAND_IN
printf '#!/bin/sh\n' >bin/mnlaunch
chmod +x bin/*
export PATH=$PWD/bin:$PATH SLURM_JOB_ID=7 SLURM_JOB_NAME=job

# ends SCRIPT STATUS SAVED RESTARTS: yes if the job goes back after a step that began at iteration 5 and has saved SAVED.
ends() {
  rm -f requeued
  STATUS=$2 SAVED=$3 SLURM_RESTART_COUNT=$4 MN_BUILD_DIR=none bash "$1" jobs/mnist >out 2>err
  [ $? = "$2" ] || fail "$*: the script ends with another status: $(cat out err)"
  [ -e requeued ] && echo yes || echo no
}

for script in "$MN_SOURCE_DIR"/slurm/*.sbatch; do
  set +e
  for status in 1 129 137 138 139 140 143; do
    [ "$(ends "$script" $status 7 4)" = yes ] || fail "$script: not requeued at $status after a checkpoint"
    [ "$(ends "$script" $status 5 0)" = no ] || fail "$script: requeued at $status without a checkpoint"
    [ "$(ends "$script" $status 7 5)" = no ] || fail "$script: requeued at $status after five restarts"
  done
  [ "$(ends "$script" 75 5 99)" = yes ] || fail "$script: not requeued at 75"
  for status in 0 2 78 126 127; do
    [ "$(ends "$script" $status 7 0)" = no ] || fail "$script: requeued at $status"
  done
  set -e
  ! compgen -G '.mn-status-*' >/dev/null || fail "$script: the file for the progress stays"
done
