#!/usr/bin/env bash
# run.sh [PROGRAM…]: the pip package mnlaunch under three launchers with five frameworks, on a cluster of two virtual nodes, or with
# NODES=3 of three; prints a table. By hand, as it needs packages of hundreds of MB:
#   python3 -m venv build/frameworks
#   build/frameworks/bin/pip install ./launcher torch lightning accelerate mpi4py
#   tests/python/frameworks/run.sh; NODES=3 tests/python/frameworks/run.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../cluster/lib.sh"
here=$checkout/tests/python/frameworks
export PATH=$build/frameworks/bin:$PATH
[ "$(command -v mnlaunch)" = "$build/frameworks/bin/mnlaunch" ] || fail "no mnlaunch in $build/frameworks"
nodes=${NODES:-2}
hosts=$(seq -s, -f 'vn%g:2' "$nodes")
declare -A launchers=(
  [mpiexec]="${on_vn1[*]} mpiexec -x PATH -x OMP_NUM_THREADS -n $((2 * nodes)) -host $hosts"
  [srun]="srun -Q -K --mpi=pmix -N$nodes --ntasks-per-node=2"
  [srun of one task a node]="srun -Q -K --mpi=pmix -N$nodes --ntasks-per-node=1"
)

programs=("$@")
[ $# -gt 0 ] || programs=(torchrun_style lightning_fit accelerate_steps deepspeed_style mpi4py_sum)

failures=0
for program in "${programs[@]}"; do
  for launcher in "${!launchers[@]}"; do
    ranks=$((2 * nodes))
    [[ $launcher != *one* ]] || ranks=$nodes
    result=failed
    # shellcheck disable=SC2086
    if timeout -k 5 180 ${launchers[$launcher]} mnlaunch python "$here/$program.py" >out 2>errors; then
      [ "$(grep -c "^$ranks ranks agree$" out)" != 1 ] || result=passed
    fi
    echo "$program, $launcher on $nodes nodes, $ranks ranks: $result"
    [ $result = passed ] || { failures=$((failures + 1)); cp out "$program.out"; cp errors "$program.errors"; tail -5 errors; }
  done
done
exit $((failures > 0))
