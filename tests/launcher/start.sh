#!/usr/bin/env bash
# mnlaunch as users meet it on one machine: silence, exports, exit statuses, output folders.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMP_NUM_THREADS

# status WANTED COMMAND…: the command's exit status; its output is left in out and err.
status() {
  local wanted=$1 seen=0
  shift
  timeout -k 5 60 "$@" >out 2>err || seen=$?
  [ "$seen" = "$wanted" ] || fail "$* exits with $seen, not $wanted: $(cat out err)"
}
# one_line TEXT: standard error is this one line, but for what mpiexec adds.
one_line() {
  [ "$(grep -c '^mnlaunch: ' err)" = 1 ] || fail "not one line: $(cat err)"
  grep -q "$1" err || fail "no \"$1\" in: $(cat err)"
}
run="mpiexec --oversubscribe -n 3"

! ldd "$mnlaunch" | grep -Ei 'libmpi|libpmix|torch|cuda|nccl|nvidia' || fail 'mnlaunch links what it must not'

status 0 "$mnlaunch" true
[ ! -s out ] && [ ! -s err ] || fail "not silent: $(cat out err)"
status 0 $run "$mnlaunch" true
[ ! -s out ] && [ ! -s err ] || fail "not silent under mpiexec: $(cat out err)"

# shellcheck disable=SC2016
status 0 $run "$mnlaunch" sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE \
$MN_RANK $MN_SIZE $MN_INTRA_RANK $MN_INTRA_SIZE $MN_INTER_RANK $MN_INTER_SIZE $MN_DEVICE $MASTER_ADDR $OMP_NUM_THREADS'
[ "$(sort out)" = "$(for r in 0 1 2; do echo "$r 3 $r 3 0 1 $r 3 $r 3 0 1 cpu 127.0.0.1 1"; done)" ] ||
  [ "$(nproc)" -gt 2 ] || fail "exports: $(cat out)"
# shellcheck disable=SC2016
status 0 $run "$mnlaunch" sh -c 'echo $MASTER_PORT'
[ "$(sort -u out | wc -l)" = 1 ] || fail "MASTER_PORT differs: $(cat out)"
# shellcheck disable=SC2016
status 0 env OMP_NUM_THREADS=7 "$mnlaunch" sh -c 'echo $OMP_NUM_THREADS'
[ "$(cat out)" = 7 ] || fail 'OMP_NUM_THREADS was changed'

status 5 "$mnlaunch" sh -c 'exit 5'
status 2 $run "$mnlaunch" --shwo true
one_line 'unknown option --shwo; did you mean --show?'
status 127 $run "$mnlaunch" no-such-program
one_line 'no-such-program'
: >data
status 126 $run "$mnlaunch" ./data
one_line 'not executable'

status 0 $run "$mnlaunch" --output logs sh -c 'echo out $RANK; echo err $RANK >&2'
[ "$(cat logs/rank-000[0-2].out)" = $'out 0\nout 1\nout 2' ] || fail "--output: $(ls logs)"
[ "$(cat logs/rank-000[0-2].err)" = $'err 0\nerr 1\nerr 2' ] || fail '--output, standard error'

status 0 $run "$mnlaunch" --dry-run --json sh -c 'echo started'
python3 -c 'import json,sys; d=json.load(open("out")); assert [r["rank"] for r in d["placement"]] == [0,1,2], d' ||
  fail "--json: $(cat out)"

# GPUs of a driver library that pretends: one for each rank, and never one for two unless that is asked for.
fake=$MN_BUILD_DIR/tests/fake
if [ -e "$fake/libnvidia-ml.so.1" ]; then
  # shellcheck disable=SC2016
  tell='echo "$RANK $MN_DEVICE ${CUDA_VISIBLE_DEVICES-all}"'
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 all\n1 cuda:1 all\n2 cuda:2 all' ] || fail "MN_DEVICE: $(cat out err)"
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" --gpu-visibility one sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 GPU-abc0\n1 cuda:0 GPU-abc1\n2 cuda:0 GPU-abc2' ] || fail "--gpu-visibility: $(cat out err)"
  status 78 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=2 $run "$mnlaunch" sh -c "$tell"
  one_line '1 of 3 ranks have no GPU of their own'
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=2 $run "$mnlaunch" --oversubscribe-gpu sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 all\n1 cuda:1 all\n2 cuda:0 all' ] || fail "--oversubscribe-gpu: $(cat out err)"
  status 0 env CUDA_VISIBLE_DEVICES=2,1,0 LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 2,1,0\n1 cuda:1 2,1,0\n2 cuda:2 2,1,0' ] || fail "visible devices: $(cat out err)"
fi

# A rank that never comes is named.
status 78 env MN_LAUNCH_TIMEOUT=2 $run sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 20; exec '"$mnlaunch"' true'
one_line 'rank 1 of 3 did not arrive in 2 s'

# A PMIx server that hangs is named, and nothing hangs with it.
cat >stopped.sh <<'STOPPED'
kill -STOP $PPID
"$1" true 2>stopped.err
echo $? >stopped.status
STOPPED
MN_LAUNCH_TIMEOUT=1 mpiexec -n 1 sh stopped.sh "$mnlaunch" &
mpiexec=$!
for _ in $(seq 300); do [ ! -s stopped.status ] || break; sleep 0.1; done
kill -9 $mpiexec
wait $mpiexec || true
[ "$(cat stopped.status)" = 78 ] && grep -q 'the PMIx server of this node has not answered for 1 s; ' stopped.err ||
  fail "a server that hangs: status $(cat stopped.status), $(cat stopped.err)"

if command -v mpiexec.hydra >/dev/null; then
  status 0 mpiexec.hydra -n 3 "$mnlaunch" sh -c 'echo $RANK $WORLD_SIZE'
  [ "$(sort out)" = $'0 3\n1 3\n2 3' ] && [ ! -s err ] || fail "Hydra: $(cat out err)"
  for _ in 1 2 3; do  # ports may meet by chance, but not thrice
    # shellcheck disable=SC2016
    status 0 mpiexec.hydra -n 2 "$mnlaunch" sh -c 'echo $MASTER_ADDR $MASTER_PORT'
    [ "$(sort -u out | wc -l)" = 1 ] || fail "MASTER_PORT under Hydra: $(cat out)"
    cat out >>ports
  done
  [ "$(sort -u ports | wc -l)" -gt 1 ] || fail "Hydra: all jobs have the port $(sort -u ports)"
fi
