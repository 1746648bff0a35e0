#!/usr/bin/env bash
# A Python DDP program (gloo) under mpiexec and mnlaunch, as its users write it.
set -euo pipefail
python=$("$MN_SOURCE_DIR/tests/support/python_with" torch -- -c 'import sys; print(sys.executable)') || exit
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
out=$(timeout -k 5 100 mpiexec --oversubscribe -n 2 "$MN_BUILD_DIR/mnlaunch" "$python" -W ignore "$MN_SOURCE_DIR/tests/launcher/ddp.py")
[ "$out" = '2 ranks agree' ] || { echo "$out"; exit 1; }
