#!/usr/bin/env bash
# Each way to start gives every program its place: the table of mnlaunch --show, the variables that it exports, and the
# node on which the program really runs agree.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch

# What each rank is told, and where it runs.
# shellcheck disable=SC2016
tell='echo "$RANK/$WORLD_SIZE $(hostname) $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MN_RANK $MN_INTRA_RANK $MN_INTER_RANK"'

# start NAME EXPECTED COMMAND…: runs COMMAND twice, to see the table and to see what each rank is told. EXPECTED has a
# line "rank host intra inter" for each rank. mnlaunch must have nothing else to say, but where the way to start is one to
# be warned of (warned=yes).
start() {
  local name=$1 expected=$2 size nodes told
  shift 2
  echo "$name"
  timeout 60 "$@" "$mnlaunch" --show true >table 2>errors || { cat errors; fail "$name: mnlaunch --show"; }
  same "$name: table" "$expected" "$(placement table)"
  timeout 60 "$@" "$mnlaunch" sh -c "$tell" >told 2>errors || { cat errors; fail "$name"; }
  [ -n "${warned:-}" ] || ! grep -v '^srun: job\|plm:rsh: Warning: setpgid' errors || fail "$name: mnlaunch is not silent"
  size=$(wc -l <<<"$expected")
  nodes=$(awk '{print $4}' <<<"$expected" | sort -u | wc -l)
  told=$(while read -r rank host intra inter; do
    local_size=$(awk -v host="$host" '$2 == host' <<<"$expected" | wc -l)
    echo "$rank/$size $host $intra/$local_size $inter/$nodes $rank $intra $inter"
  done <<<"$expected")
  same "$name: variables" "$told" "$(sort -n told)"
}

two=$'0 vn1 0 0\n1 vn2 0 1'
four=$'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1'
cyclic=$'0 vn1 0 0\n1 vn2 0 1\n2 vn1 1 0\n3 vn2 1 1'

start 'no launcher' '0 head 0 0'
start 'srun, 1 a node' "$two" srun -N2 --ntasks-per-node=1
start 'srun, 2 a node' "$four" srun -N2 --ntasks-per-node=2
start 'srun, cyclic' "$cyclic" srun -N2 --ntasks-per-node=2 --distribution=cyclic
warned=yes start 'srun, uneven' $'0 vn1 0 0\n1 vn1 1 0\n2 vn1 2 0\n3 vn2 0 1' srun -N2 -n4 --distribution=block
start 'srun without PMIx' "$two" srun --mpi=none -N2 --ntasks-per-node=1
start 'mpiexec on one node' $'0 vn1 0 0\n1 vn1 1 0' "${on_vn1[@]}" mpiexec -n 2
start 'mpiexec through ssh' "$four" "${on_vn1[@]}" mpiexec -x PATH -x OMP_NUM_THREADS -n 4 -host vn1:2,vn2:2
start 'mpiexec through ssh, by node' "$cyclic" "${on_vn1[@]}" mpiexec -x PATH -x OMP_NUM_THREADS -n 4 -host vn1:2,vn2:2 --map-by node
start 'mpiexec in an allocation' "$four" salloc -Q -N2 --ntasks-per-node=2 mpiexec

# A batch script starts what it holds by srun or by mpiexec; its own shell is rank 0 of 1 nowhere.
cat >batch.sh <<BATCH
#!/bin/bash
srun "$mnlaunch" --show true >srun.table
mpiexec "$mnlaunch" --show true >mpiexec.table
BATCH
submit -Q -N2 --ntasks-per-node=2 batch.sh >/dev/null || fail "sbatch: $(cat slurm-*.out)"
same 'sbatch, srun' "$four" "$(placement srun.table)"
same 'sbatch, mpiexec' "$four" "$(placement mpiexec.table)"
