#!/usr/bin/env bash
# mnlaunch --doctor on one machine whose ranks count as nodes: links that are slow, or do not answer, are named with their
# host; a part that hangs ends in time; reports of any length reach the self test, and can be kept and compared with.
# usage: doctor.sh bandwidths|ends
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
selftest=$MN_BUILD_DIR/mnlaunch-selftest
export OMPI_MCA_mpi_yield_when_idle=1

# doctor WANTED RANKS [VARIABLE=VALUE…] -- OPTIONS: its exit status; each rank is a node of its own, n0, n1, …
doctor() {
  local wanted=$1 ranks=$2 seen=0 settings=()
  shift 2
  while [ "$1" != -- ]; do settings+=("$1"); shift; done
  shift
  # shellcheck disable=SC2016
  timeout -k 5 120 env "${settings[@]}" mpiexec --oversubscribe -n "$ranks" sh -c \
    'export MN_NODE_NAME=n$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$mnlaunch" --doctor "$@" >out 2>err || seen=$?
  [ "$seen" = "$wanted" ] || fail "--doctor $* with ${settings[*]}: status $seen, not $wanted: $(cat out err)"
}
# test_of NAME: its result in the report.
test_of() { python3 -c 'import json,sys; print(json.load(open("out"))["self_test"].get(sys.argv[1]))' "$1"; }

case ${1:-} in
  bandwidths)  # which other work on the machine would change
    doctor 0 4 -- --json --save report.json
    [ "$(test_of ring)/$(test_of allreduce)/$(test_of links)" = passed/passed/passed ] || fail "healthy: $(cat out)"
    [ "$(python3 -c 'import json; print(len(json.load(open("out"))["self_test"]["pairs"]))')" -ge 4 ] || fail "pairs: $(cat out)"
    cmp -s out report.json || fail '--save'
    doctor 0 3 --
    grep -q '^all is well' out && grep -q '^rank  *host  *intra  *inter  *device  *gpu  *cores  *nic' out || fail "as text: $(cat out)"

    # Against figures that were better.
    python3 - <<'PY'
import json
report = json.load(open("report.json"))
for pair in report["self_test"]["pairs"]: pair["bandwidth_mb_s"] *= 1000
json.dump(report, open("better.json", "w"))
PY
    doctor 1 4 -- --json --against better.json
    [[ $(test_of against) == 'FAILED: '*' it was '* ]] || fail "--against: $(cat out)"

    # A rank whose messages are slow.
    doctor 1 4 LD_PRELOAD="$MN_BUILD_DIR/tests/libmn_slow_link.so" MN_TEST_SLOW=2 -- --json --history history
    [[ $(test_of links) == 'FAILED: the network of '*' reaches '*' MB/s, other pairs reach about '* ]] || fail "a slow link: $(test_of links)"

    # Who fails often, by a file of all runs.
    doctor 1 4 LD_PRELOAD="$MN_BUILD_DIR/tests/libmn_slow_link.so" MN_TEST_SLOW=2 -- --history history
    grep -q "^  $(hostname): 2 of its last 2 checks found links" out && grep -q "^  $(hostname): isolate; until then --exclude=$(hostname)" out ||
      fail "--history: $(cat out history)"
    echo '{"host": "n2", "ti' >>history
    doctor 0 2 -- --history history
    grep -q "^  line $(grep -n ti\"\*\$ history | head -1 | cut -d: -f1) is damaged and was skipped" out || fail "a damaged line: $(cat out history)"
    [ "$(tail -1 history | python3 -c 'import json,sys; print(json.load(sys.stdin)["verdict"])')" = well ] || fail "$(cat history)"
    ;;
  ends)
    # Against a file that is not a report.
    for absent in /dev/null no-such.json; do
      doctor 2 2 -- --against $absent
      [ ! -s out ] && grep -q "^mnlaunch: rank 0 on .*: --against: .*$absent" err || fail "--against no report: $(cat out err)"
    done

    # What would be replaced or waited for is neither written nor read.
    mkfifo pipe
    for option in --save --history; do
      doctor 2 2 -- "$option" pipe
      [ -p pipe ] && grep -q "^mnlaunch: rank 0 on .*: $option: pipe is not a file" err || fail "$option of a pipe: $(cat out err)"
    done

    # A report that cannot be written is one line and a failure.
    for json in '' --json; do
      seen=0
      # shellcheck disable=SC2086
      timeout 60 "$mnlaunch" --doctor $json >/dev/full 2>err || seen=$?
      [ $seen = 1 ] && [ "$(grep -c '^mnlaunch' err)" = 1 ] &&
        grep -q '^mnlaunch --doctor: cannot write standard output: No space left on device' err || fail "no report: status $seen, $(cat err)"
    done

    # A rank whose messages never arrive.
    doctor 1 4 LD_PRELOAD="$MN_BUILD_DIR/tests/libmn_slow_link.so" MN_TEST_MUTE=1 MN_DOCTOR_TIMEOUT=8 -- --json
    [[ $(test_of links) == 'FAILED: '*'does not answer'* ]] || fail "a link that does not answer: $(cat out err)"

    # A network port that loses its link while the test runs; what it counted before does not matter.
    port=hardware/sys/class/infiniband/mlx5_0/ports/1
    mkdir -p $port/counters hardware/proc hardware/dev/shm
    echo '4: ACTIVE' >$port/state
    echo 200 >$port/counters/link_downed
    doctor 0 2 MN_HARDWARE_ROOT="$work/hardware" -- --json --skip memlock
    [ "$(test_of ports)" = passed ] || fail "a port: $(cat out err)"
    for downs in $(seq 1 250); do  # faster than the shortest self test; from 255 on the counter is full
      echo "$downs" >$port/counters/new && mv $port/counters/new $port/counters/link_downed
      sleep 0.05
    done &
    doctor 1 2 MN_HARDWARE_ROOT="$work/hardware" -- --json --skip memlock
    [[ $(test_of ports) == 'FAILED: mlx5_0/1 lost its link '* ]] || fail "a port that loses its link: $(cat out err)"
    kill $! 2>/dev/null || true

    doctor 1 2 -- --history /absent/history
    grep -q 'cannot write /absent/history' err && grep -q '^all is well' out || fail "a history that cannot be written: $(cat out err)"

    # NVML shows GPUs that CUDA does not.
    fake=$MN_BUILD_DIR/tests/fake
    if [ -e "$fake/libnvidia-ml.so.1" ]; then
      doctor 1 2 LD_LIBRARY_PATH="$fake" CUDA_VISIBLE_DEVICES=60,61 MN_FAKE_GPUS=64 -- --history history
      grep -q '^  error \[cuda\] .*: NVML shows GPUs to this job, but CUDA sees ' out || fail "no CUDA: $(cat out err)"
      doctor 0 2 LD_LIBRARY_PATH="$fake" CUDA_VISIBLE_DEVICES=60,61 MN_FAKE_GPUS=64 -- --skip cuda
    fi

    # A rank that never comes to MPI_Init.
    seen=0
    # shellcheck disable=SC2016
    MN_DOCTOR_TIMEOUT=3 timeout -k 5 60 mpiexec --oversubscribe -n 3 sh -c \
      '[ "$OMPI_COMM_WORLD_RANK" = 2 ] && exec sleep 50; exec "$0" --json' "$selftest" >out 2>err || seen=$?
    [ $seen = 1 ] && [[ $(test_of deadline) == 'FAILED: MPI_Init did not end in time'* ]] || fail "a hang: status $seen, $(cat out err)"
    seen=0
    MN_DOCTOR_TIMEOUT=0 timeout 60 "$mnlaunch" --doctor >out 2>err || seen=$?
    [ $seen = 2 ] && grep -q 'MN_DOCTOR_TIMEOUT is 0: give seconds' err || fail "no time: status $seen, $(cat out err)"
    status 2 env MN_DOCTOR_TIMEOUT=x $run "$mnlaunch" --doctor
    one_line '^mnlaunch: MN_DOCTOR_TIMEOUT is "x", which is not a whole number'

    # As long as the report of some thousands of ranks.
    options=()
    for i in $(seq 1500); do options+=(--check-file "/absent/$(printf '%0100d' "$i")"); done
    seen=0
    timeout 120 "$mnlaunch" --doctor --json "${options[@]}" >out 2>err || seen=$?
    [ $seen = 1 ] && [ "$(grep -c '"check": "files"' out)" = 1500 ] || fail "a long report: status $seen, $(head -c 500 err)"
    ;;
  *) fail "there is no case ${1:-}" ;;
esac
