#!/usr/bin/env bash
# What two nodes can't show: distributions with holes, hosts out of order, and a fault on rank 0's node, where the other
# two say what is usual. The build folder has a blank in its name, and the cluster keeps nothing of ours open.
export NODES=3
if [ ! -e /run/mn-cluster ]; then
  two_nodes=$(dirname "${BASH_SOURCE[0]}")/two_nodes
  "$two_nodes" possible || exit 77
  MN_BUILD_DIR=${MN_BUILD_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)/build}
  ln -sfn "$MN_BUILD_DIR" "$MN_BUILD_DIR/tests/a build"
  export MN_BUILD_DIR="$MN_BUILD_DIR/tests/a build"
  trap '"$two_nodes" down; rm -f "$MN_BUILD_DIR"' EXIT  # the link; who walks the build folder would follow it in circles
  "$two_nodes" up 7>"$MN_BUILD_DIR/tests/held"
  ! readlink /proc/"$(cat "$MN_BUILD_DIR/cluster.3/pid")"/fd/* | grep -q '/held$' || { echo "FAILED: the cluster holds a file open"; exit 1; }
  bash -c 'source "$(dirname "$0")/lib.sh"' "${BASH_SOURCE[0]}" && exit 0 || exit $?
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch

# What each rank is told, and where it runs.
# shellcheck disable=SC2016
tell='echo "told $RANK $(hostname) $LOCAL_RANK $GROUP_RANK"'

# shows NAME EXPECTED COMMAND…: EXPECTED has a line "rank host intra inter" for each rank.
shows() {
  local name=$1 expected=$2
  shift 2
  echo "$name"
  timeout -k 5 60 "$@" "$mnlaunch" --show sh -c "$tell" >table 2>errors || fail "$name: $(cat table errors)"
  same "$name: table" "$expected" "$(placement table)"
  same "$name: variables" "$expected" "$(sed -n 's/^told //p' table | sort -n)"
}
six=$'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1\n4 vn3 0 2\n5 vn3 1 2'

shows 'block' "$six" srun -Q -N3 --ntasks-per-node=2
shows 'cyclic' $'0 vn1 0 0\n1 vn2 0 1\n2 vn3 0 2\n3 vn1 1 0\n4 vn2 1 1\n5 vn3 1 2' srun -Q -N3 --ntasks-per-node=2 -m cyclic
shows 'plane, uneven' $'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1\n4 vn3 0 2\n5 vn1 2 0\n6 vn1 3 0' srun -Q -N3 -n7 -m plane=2
printf 'vn2\nvn1\nvn2\nvn3\n' >hosts
shows 'arbitrary' $'0 vn2 0 0\n1 vn1 0 1\n2 vn2 1 0\n3 vn3 0 2' env SLURM_HOSTFILE="$work/hosts" srun -Q -n4 -m arbitrary

echo 'a step of three components'
component=("$mnlaunch" --show sh -c "$tell")
run_components -N1 -n2 -w vn2 "${component[@]}" : -N1 -n1 -w vn3 "${component[@]}" : -N1 -n2 -w vn1 "${component[@]}"
three=$'0 vn2 0 0\n1 vn2 1 0\n2 vn3 0 1\n3 vn1 0 2\n4 vn1 1 2'
same 'three components: table' "$three" "$(placement table)"
same 'three components: variables' "$three" "$(sed -n 's/^told //p' table | sort -n)"

# Not with PMIx: Slurm 22.05's servers find each other only where the nodes of such a step come in the order of their names.
for mpi in none pmi2; do
  echo "a step of two of three components, --mpi=$mpi"
  timeout -k 5 60 salloc -Q -N1 -n2 -w vn2 : -N1 -n1 -w vn3 : -N1 -n2 -w vn1 \
    srun -Q --mpi=$mpi --het-group=0,2 "${component[@]}" >table 2>errors || fail "two of three components: $(cat table errors)"
  two=$'0 vn2 0 0\n1 vn2 1 0\n2 vn1 0 1\n3 vn1 1 1'
  same 'two of three components: table' "$two" "$(placement table)"
  same 'two of three components: variables' "$two" "$(sed -n 's/^told //p' table | sort -n)"
done

shows 'salloc, mpirun' "$six" salloc -Q -N3 --ntasks-per-node=2 mpirun
shows 'mpiexec -host' $'0 vn3 0 0\n1 vn2 0 1\n2 vn2 1 1' "${on_vn1[@]}" mpiexec -n 3 -host vn3:1,vn2:2
printf 'vn1 slots=1\nvn3 slots=2\nvn2 slots=1\n' >hostfile
shows 'mpiexec, host file' $'0 vn1 0 0\n1 vn3 0 1\n2 vn3 1 1\n3 vn2 0 2' "${on_vn1[@]}" mpiexec -n 4 --hostfile "$work/hostfile"

# fault NAME STATUS PATTERN OPTIONS PROGRAM…
fault() {
  local name=$1 wanted=$2 pattern=$3 seen=0
  shift 3
  echo "$name"
  timeout -k 5 60 srun -Q -N3 --ntasks-per-node=1 "$mnlaunch" "$@" >out 2>err || seen=$?
  [ "$(grep -cE "^mnlaunch: $pattern.*; " err)" = 1 ] || fail "$name: no line \"$pattern\" in: $(cat out err)"
  [ "$seen" = "$wanted" ] || fail "$name: status $seen, not $wanted: $(cat out err)"
}
for node in vn1 vn2 vn3; do
  "$cluster/two_nodes" in $node mkdir -p /tmp/local
  "$cluster/two_nodes" in $node cp "$build/mnlaunch" /tmp/local/job
  "$cluster/two_nodes" in $node sh -c 'echo data >/tmp/local/data'
done
"${on_vn1[@]}" cp "$build/mnlaunch-selftest" /tmp/local/job
fault "another build on rank 0's node" 78 'error \[program\] vn1: the build of the program is' /tmp/local/job
"$cluster/two_nodes" in vn2 mkdir /tmp/local/torch-2.15.0.dist-info
PYTHONPATH=/tmp/local fault 'another torch on a node' 78 'error \[python\] vn2: the version of torch is 2.15.0, but' python3 -c pass
fault 'results on folders of their own' 78 'warning \[output\] vn\[2-3\]: the folder of results, /tmp/local' \
  --check strict true --out /tmp/local
for node in vn1 vn3; do "$cluster/two_nodes" in $node rm /tmp/local/data; done
fault 'a file on one node only' 78 'error \[files\] vn\[1,3\]: /tmp/local/data can.t be read' --check-file /tmp/local/data true

# A node dies under supervise: the step starts again without it, in the same job, from its last checkpoint. Last, as the
# node does not come back.
[ -x "$build/jobs/mnist" ] || exit 0
echo 'supervise'
cat >supervised.sbatch <<'BATCH'
#!/bin/bash
"$1" supervise --min-nodes 2 -- srun --ntasks-per-node=1 --mpi=pmix "$1" jobs/mnist --device cpu --epoch 1 --unit 100 \
  --checkpoint-every 20i --resume auto --out supervised
BATCH
sbatch --no-kill -N3 --ntasks-per-node=1 --output=supervised.txt supervised.sbatch "$mnlaunch" >/dev/null
within 120 compgen -G 'supervised/ckpt/step-*/manifest.json' >/dev/null || fail "no checkpoint in 120 s: $(cat supervised.txt)"
ip netns pids vn3 | xargs kill -9 || true  # some end as their parents do
# By its own last line: the job stays COMPLETING as long as Slurm waits for the dead node.
over() { grep -qE '^mnlaunch supervise: (ends with|gives up)' supervised.txt; }
within 240 over || fail "supervise is not over after 240 s: $(cat supervised.txt)"
for line in 'attempt 1 ended with .*lost rank 2 on host vn3.*; lost vn3$' 'starts again on vn\[1-2\], 2 ranks$' \
  'trains again after iteration [0-9]*0: detect .*, tear down .*, start .*, load .*, first step .* in all$' \
  'ends with 0: 2 attempts, lost vn3, .* minutes until training went on$'; do
  grep -qE "^mnlaunch supervise: $line" supervised.txt || fail "no line \"$line\" in: $(cat supervised.txt)"
done
grep '^mnlaunch supervise: trains again' supervised.txt
same "epochs in the log" 1 \
  "$(python3 -c 'import json; print(*(report["epoch"] for report in json.load(open("supervised/log"))))')"
