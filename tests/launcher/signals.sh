#!/usr/bin/env bash
# What a process gets from its parent by exec: SIGCHLD ignored, signals blocked, SIGHUP ignored by nohup.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
careless="env --ignore-signal=CHLD --block-signal=TERM --block-signal=USR1 --block-signal=HUP"

# mnlaunch itself ends, and the program gets its signals.
status 5 $careless "$mnlaunch" --label sh -c 'exit 5'
status 143 $careless "$mnlaunch" sh -c 'kill -TERM $$; exit 3'
status 5 $careless "$mnlaunch" python3 -c 'import subprocess; raise SystemExit(subprocess.call(["sh", "-c", "exit 5"]))'
# What a parent has ignored on purpose stays ignored.
for label in '' --label; do
  status 3 nohup "$mnlaunch" $label sh -c 'kill -HUP $$; exit 3'
  status 3 env --ignore-signal=INT "$mnlaunch" $label sh -c 'kill -INT $$; exit 3'
done

# A stand-in for mpiexec, as a step of mnlaunch supervise.
mkdir bin
printf '#!/bin/sh\neval "$STEP"\n' >bin/mpiexec
chmod +x bin/mpiexec
export PATH=$PWD/bin:$PATH
supervise() { status "$1" "${@:2}" "$mnlaunch" supervise --restarts 0 -- mpiexec -host localhost:1 mnlaunch x; }
STEP='exit 2' supervise 2 $careless
# SIGHUP is not the end of what nohup has started, neither of supervise nor of its step.
STEP='kill -HUP $PPID $$; sleep 0.3; exit 2' supervise 2 nohup
# A batch script ignores a notice for itself alone.
STEP='trap "exit 75" USR1; kill -USR1 $PPID; while true; do sleep 0.1; done' supervise 75 env --ignore-signal=USR1
# Without nohup the step gets a notice in its place, and all end.
STEP='trap "exit 75" USR1; kill -HUP $PPID; while true; do sleep 0.1; done' supervise 75

# So it is with tools, here while one waits for the reader of its output.
python3 - "$MN_BUILD_DIR/mnreport" <<'PYTHON' || fail 'a tool whose signals were blocked'
import os, signal, subprocess, sys
_, full = os.pipe()
os.set_blocking(full, False)
try:
    while os.write(full, b"x" * 4096):
        pass
except BlockingIOError:
    os.set_blocking(full, True)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
tool = subprocess.Popen([sys.argv[1], "--help"], stdout=full)
tool.terminate()
try:
    sys.exit(tool.wait(30) != -signal.SIGTERM)
finally:
    tool.kill()
PYTHON
