#!/usr/bin/env bash
# mnlaunch --output: files and patterns. --label: lines, exit statuses, signals, and output that nobody takes any more.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# until_true COMMAND…: waits for it.
until_true() {
  for _ in $(seq 300); do
    ! "$@" || return 0
    sleep 0.1
  done
  fail "not seen in 30 s: $*"
}

status 0 $run "$mnlaunch" --output logs sh -c 'echo out $RANK; echo err $RANK >&2'
[ "$(cat logs/rank-000[0-2].out)" = $'out 0\nout 1\nout 2' ] || fail "--output: $(ls logs)"
[ "$(cat logs/rank-000[0-2].err)" = $'err 0\nerr 1\nerr 2' ] || fail '--output, standard error'

# A pattern; a job that Slurm starts again appends, and so do ranks that write one file.
for _ in 1 2; do status 0 env SLURM_JOB_ID=7 $run "$mnlaunch" --output 'logs/%j/%r.%t' sh -c 'echo out $RANK; echo err $RANK >&2'; done
[ "$(cat logs/7/[0-2].out)" = $'out 0\nout 1\nout 2' ] || fail "--output, pattern: $(ls -R logs)"
status 0 env SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 "$mnlaunch" --output 'logs/%j/%r.%t' echo again
[ "$(cat logs/7/0.out)" = $'out 0\nagain' ] || fail "--output of a job that was started again: $(cat logs/7/0.out)"
status 0 env SLURM_RESTART_COUNT=1 "$mnlaunch" --output logs echo again
[ "$(cat logs/rank-0000.out)" = $'out 0\nagain' ] || fail "--output DIR of a job that was started again"
for id in 0 1; do status 0 env SLURM_JOB_ID=7 SLURM_STEP_ID=$id "$mnlaunch" --output logs/steps echo step $id; done
[ "$(cat logs/steps/rank-0000.out)" = $'step 0\nstep 1' ] || fail "--output of two steps: $(cat logs/steps/rank-0000.out)"
mkfifo go
# Steps that begin together: the first one may come last.
for id in 1 0; do status 0 env SLURM_JOB_ID=7 SLURM_STEP_ID=$id "$mnlaunch" --output logs/race echo step $id; done
[ "$(cat logs/race/rank-0000.out)" = $'step 1\nstep 0' ] || fail "--output of two steps at once: $(cat logs/race/rank-0000.out)"
touch -d '1 hour ago' logs/race/rank-0000.out
status 0 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 "$mnlaunch" --output logs/race echo new
[ "$(cat logs/race/rank-0000.out)" = new ] || fail "--output of a later job's first step: $(cat logs/race/rank-0000.out)"
"$mnlaunch" --output logs/both sh -c 'echo first; read -r line <go; echo last' &
first=$!
until [ -s logs/both/rank-0000.out ]; do sleep 0.05; done
status 0 "$mnlaunch" --output logs/both echo second
echo >go
wait $first
[ "$(cat logs/both/rank-0000.out)" = $'first\nsecond\nlast' ] || fail "--output of two at once: $(cat logs/both/rank-0000.out)"
status 0 "$mnlaunch" --output logs/both echo new
[ "$(cat logs/both/rank-0000.out)" = new ] || fail "--output of a later job: $(cat logs/both/rank-0000.out)"
for _ in 1 2; do status 0 "$mnlaunch" --append --output logs/appended echo once; done
[ "$(cat logs/appended/rank-0000.out)" = $'once\nonce' ] || fail '--append'
status 2 "$mnlaunch" --append true
one_line '--append needs --output'
status 2 $run "$mnlaunch" --output '%x' true
one_line '--output "%x" has %x: use %r'

status 0 $run "$mnlaunch" --label --output 'logs/%j.txt' sh -c 'echo out $RANK; printf "no line end" >&2'
[ "$(sort logs/0.txt)" = "$(for r in 0 1 2; do printf '%s: no line end\n%s: out %s\n' $r $r $r; done)" ] || fail "--label: $(cat logs/0.txt)"
# With --label mnlaunch stays, and ends as the program does; signals reach the program.
status 5 "$mnlaunch" --label sh -c 'echo a; exit 5'
[ "$(cat out)" = '0: a' ] || fail "--label: $(cat out)"
status 143 "$mnlaunch" --label sh -c 'kill -TERM $$'
"$mnlaunch" --label sh -c 'trap "echo caught; exit 7" USR1; echo ready; while true; do sleep 0.1; done' >out 2>err &
labeled=$!
until_true grep -q ready out
kill -USR1 $labeled
seen=0
wait $labeled || seen=$?
[ $seen = 7 ] && grep -q '^0: caught$' out || fail "a signal under --label: status $seen, $(cat out err)"
"$mnlaunch" --label sh -c 'echo $$; exec sleep 60' >out 2>err &
labeled=$!
until_true [ -s out ]
kill -9 $labeled
wait $labeled || true
for _ in $(seq 100); do kill -0 "$(sed 's/0: //' out)" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$(sed 's/0: //' out)" 2>/dev/null || fail 'the program outlives mnlaunch --label'

# A launcher signals all processes of a rank: the program gets that once.
$run "$mnlaunch" --label python3 "$MN_SOURCE_DIR/tests/support/count_signals.py" ready >out 2>err &
launcher=$!
for n in 0 1 2; do until_true [ -e ready.$n ]; done
kill -USR1 $launcher
wait $launcher || true
[ "$(sort out)" = $'0: got 1\n1: got 1\n2: got 1' ] || fail "a signal of mpiexec under --label: $(cat out err)"

# So does a batch system that signals one process after the other.
rm ready.*
"$mnlaunch" --label python3 "$MN_SOURCE_DIR/tests/support/count_signals.py" ready >out 2>err &
labeled=$!
until_true [ -e ready.0 ]
for process in $labeled $(pgrep -P $labeled); do
  kill -USR1 "$process"
  sleep 0.02
done
wait $labeled || true
[ "$(cat out)" = '0: got 1' ] || fail "a signal to each process under --label: $(cat out err)"

# Where the reader has gone, the program learns of it, as it does without --label.
seen=0
timeout -k 5 20 bash -c 'set -o pipefail; "$0" --label yes | head -1' "$mnlaunch" >out 2>err || seen=$?
[ $seen = 141 ] && [ "$(cat out)" = '0: y' ] && [ ! -s err ] || fail "a reader that has gone: status $seen, $(cat out err)"
# Output that cannot be written is lost with a line, and what can be written is not.
status 0 sh -c '"$0" --label sh -c "for i in 1 2 3; do echo \$i; done; echo err >&2" >/dev/full' "$mnlaunch"
[ "$(sort err)" = $'0: err\n0: mnlaunch: --label: cannot write standard output: No space left on device; lines are lost' ] ||
  fail "a full disk: $(cat err)"
# A reader that is slow, behind a stream that does not block.
mkfifo slow
python3 - "$mnlaunch" <<'PYTHON' >out 2>err &
import os, subprocess, sys
stream = os.open("slow", os.O_WRONLY)
os.set_blocking(stream, False)
sys.exit(subprocess.run([sys.argv[1], "--label", "seq", "100000"], stdout=stream).returncode)
PYTHON
writer=$!
{ sleep 1; cat; } <slow >numbers
wait $writer || fail "a stream that does not block: $(cat err)"
[ "$(wc -l <numbers)" = 100000 ] && [ "$(tail -1 numbers)" = '0: 100000' ] || fail "lost of 100000: $(wc -l <numbers)"

# Processes that outlive the program write on, and it is not waited for them.
begin=$(date +%s%N)
status 0 "$mnlaunch" --label sh -c '(sleep 5; echo late) & echo early'
[ "$(cat out)" = '0: early' ] && [ $((($(date +%s%N) - begin) / 1000000)) -lt 4000 ] || fail "waits for others: $(cat out err)"
until_true grep -q '^0: late$' out
# What stays for them ignores what they ignore.
setsid nohup "$mnlaunch" --label sh -c '(sleep 2; echo later) & echo now' >out 2>err </dev/null &
labeled=$!
wait $labeled
kill -HUP -- -$labeled
until_true grep -q '^0: later$' out
