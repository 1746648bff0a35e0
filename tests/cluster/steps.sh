#!/usr/bin/env bash
# Steps that share nodes: MN_STEPS (8) of one allocation at once, each of which is a job of its own, also with cores and
# GPUs of their own.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch
# shellcheck disable=SC2016
tell='echo "$RANK/$WORLD_SIZE $(hostname) $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_PORT"'

# at_once NUMBER WANTED ALLOCATION STEP: so many steps with the options STEP in one allocation. Each tells WANTED and one
# port, and nothing else.
at_once() {
  local number=$1 wanted=$2 step
  echo "$number steps at once: $4"
  cat >steps.sh <<STEPS
for step in \$(seq $number); do
  timeout -k 5 250 srun -Q $4 "$mnlaunch" sh -c '$tell' >told.\$step 2>errors.\$step &
done
wait
STEPS
  # shellcheck disable=SC2086
  timeout -k 5 300 salloc -Q $3 bash steps.sh || fail "salloc: $(cat errors.*)"
  for step in $(seq "$number"); do
    same "step $step of $number, $4" "$wanted" "$(sort -n "told.$step" | cut -d' ' -f1-4)"
    same "its ports" 1 "$(awk '{print $5}' "told.$step" | sort -u | wc -l)"
    [ ! -s "errors.$step" ] || fail "step $step of $number, $4: $(cat "errors.$step")"
  done
}

four=$'0/4 vn1 0/2 0/2\n1/4 vn1 1/2 0/2\n2/4 vn2 0/2 1/2\n3/4 vn2 1/2 1/2'
two=$'0/2 vn1 0/1 0/2\n1/2 vn2 0/1 1/2'
at_once "${MN_STEPS:-8}" "$four" '-N2 --ntasks-per-node=2' '--overlap -N2 --ntasks-per-node=2'
at_once 4 "$two" '-N2 --ntasks-per-node=4' '--exact -N2 -n2 --ntasks-per-node=1'
at_once 2 "$four" '-N2 --ntasks-per-node=4 --gpus-per-node=4' '--exact -N2 -n4 --ntasks-per-node=2 --gpus-per-task=1'
at_once 1 "$four" '-N2 --ntasks-per-node=2 --gpus-per-node=2' '-N2 --ntasks-per-node=2 --gpu-bind=none'
