#!/usr/bin/env bash
# mnlaunch supervise around srun -K, whose own status is that of the ranks that it ended, and around mpiexec, whose ranks
# on other nodes get no variable of supervise but the name of the file for their progress. The hosts that srun is to use,
# or not, hold for supervise.
# shellcheck disable=SC2016
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch

# supervised WANTED ATTEMPTS OPTIONS_AND_PROGRAM…: how supervise ends around an srun that ends all ranks when one fails.
supervised() {
  local wanted=$1 attempts=$2 seen=0
  shift 2
  echo "supervise, srun -K: $*"
  timeout -k 5 100 salloc -Q -N2 --ntasks-per-node=2 \
    "$mnlaunch" supervise --restarts 1 -- srun -K "$mnlaunch" "$@" >supervised.txt 2>&1 || seen=$?
  same "supervise: $*: $(cat supervised.txt)" "$wanted" "$seen"
  grep -q "^mnlaunch supervise: ends with $wanted: $attempts attempt" supervised.txt || fail "$*: $(cat supervised.txt)"
}
supervised 127 1 nosuch
supervised 2 1 --bogus true
supervised 3 2 sh -c '[ $RANK = 1 ] && exit 3; sleep 20'
supervised 137 2 sh -c '[ $RANK = 1 ] && kill -KILL $$; sleep 20'
supervised 75 1 sh -c '[ $RANK = 1 ] && kill -TERM $$; sleep 20'

# A signal to supervise alone, as `scancel --batch` sends it: ranks save when they get it. Slurm sends the signal to the
# children of a rank first, so a rank must not end with its child.
echo 'supervise, signals'
cat >saving <<'RANK'
trap 'touch "saved.$RANK"; exit 75' USR1
touch "up.$RANK"
while true; do sleep 0.1; done
RANK
for signal in TERM HUP INT; do
  rm -f up.* saved.* supervisor
  timeout -k 5 60 salloc -Q -N2 --ntasks-per-node=1 \
    sh -c 'echo $$ >supervisor; exec "$0" supervise -- srun "$0" sh saving' "$mnlaunch" >supervised.txt 2>&1 &
  job=$! seen=0
  within 30 test -e up.0 -a -e up.1 || fail "no ranks: $(cat supervised.txt)"
  kill -$signal "$(cat supervisor)"
  wait $job || seen=$?
  same "$signal: $(cat supervised.txt)" '75 saved.0 saved.1' "$seen $(echo saved.*)"
done

# srun takes vn1 first where it may.
echo 'supervise, --exclude and --nodelist'
for hosts in --exclude=vn1 '-x vn1' '-w vn2'; do
  # shellcheck disable=SC2086
  timeout -k 5 100 salloc -Q -N2 --ntasks-per-node=1 "$mnlaunch" supervise -- srun -N1 $hosts "$mnlaunch" \
    sh -c 'echo "ran on $SLURMD_NODENAME"' >supervised.txt 2>&1 || fail "$hosts: $(cat supervised.txt)"
  same "$hosts: $(cat supervised.txt)" 'ran on vn2' "$(grep '^ran on' supervised.txt)"
done

echo 'supervise, mpiexec'
"${on_vn1[@]}" timeout 60 "$mnlaunch" supervise -- mpiexec -host vn1:1,vn2:1 -n 2 -x PATH -x OMP_NUM_THREADS \
  "$mnlaunch" --check strict sh -c '[ -n "$MN_STATUS_FILE" ]' >supervised.txt 2>&1 || fail "supervise, mpiexec: $(cat supervised.txt)"
