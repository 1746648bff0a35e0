#!/usr/bin/env bash
# Every launcher and distribution that users meet: the table is right, and MPI programs started through mnlaunch agree
# with it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch
selftest=$build/mnlaunch-selftest
plane=$'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn1 2 0\n4 vn1 3 0'  # Slurm fills vn1 first: 4 and 1
four=$'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1'
cyclic=$'0 vn1 0 0\n1 vn2 0 1\n2 vn1 1 0\n3 vn2 1 1'
uneven=$'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1'

# shows NAME EXPECTED COMMAND…
shows() {
  local name=$1 expected=$2
  shift 2
  echo "$name"
  timeout -k 5 60 "$@" "$mnlaunch" --show true >table 2>errors || fail "$name: $(cat table errors)"
  same "$name" "$expected" "$(placement table)"
}
# compared NAME: in the last command all nodes were compared, and well.
compared() { ! grep '^mnlaunch: ' errors | grep -v -e '\[distribution\]' -e ' note: the key ' || fail "$1: $(cat errors)"; }

shows 'plane distribution' "$plane" srun -Q -N2 -n5 -m plane=2
for mpi in none pmi2; do
  shows "plane distribution, --mpi=$mpi" "$plane" srun -Q --mpi=$mpi -N2 -n5 -m plane=2
  compared "plane distribution, --mpi=$mpi"
  shows "cyclic distribution, --mpi=$mpi" "$cyclic" srun -Q --mpi=$mpi -N2 --ntasks-per-node=2 -m cyclic
  compared "cyclic distribution, --mpi=$mpi"
done
grep -q 'note: the key by which the nodes know each other is sealed by munge' errors || fail "the key: $(cat errors)"
printf 'vn2\nvn1\nvn2\n' >hosts
arbitrary=$'0 vn2 0 0\n1 vn1 0 1\n2 vn2 1 0'
shows 'arbitrary distribution' "$arbitrary" env SLURM_HOSTFILE="$work/hosts" srun -Q -n3 -m arbitrary
shows 'arbitrary distribution without PMIx' "$arbitrary" \
  env SLURM_HOSTFILE="$work/hosts" srun -Q --mpi=none -n3 -m arbitrary
compared 'arbitrary distribution without PMIx'
shows 'srun --mpi=pmi2' "$four" srun -Q --mpi=pmi2 -N2 --ntasks-per-node=2
compared 'srun --mpi=pmi2'

echo 'heterogeneous step'
run_components -N1 -n2 -w vn1 "$mnlaunch" --show true : -N1 -n1 -w vn2 "$mnlaunch" --show true
same 'heterogeneous step' $'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1' "$(placement table)"

printf 'vn1 slots=2\nvn2 slots=2\n' >hostfile
shows 'mpiexec with a host file' "$four" "${on_vn1[@]}" mpiexec -n 4 --hostfile "$work/hostfile"

if command -v mpiexec.hydra >/dev/null; then
  shows 'Hydra' "$four" "${on_vn1[@]}" mpiexec.hydra -n 4 -hosts vn1:2,vn2:2
  compared 'Hydra'
  shows 'Hydra, uneven' "$uneven" "${on_vn1[@]}" mpiexec.hydra -n 3 -hosts vn1:2,vn2:1
  shows 'Hydra, cyclic' "$cyclic" "${on_vn1[@]}" mpiexec.hydra -n 4 -hosts vn1:1,vn2:1
  echo 'Hydra, where rank 0 is'
  # shellcheck disable=SC2016
  "${on_vn1[@]}" timeout -k 5 60 mpiexec.hydra -n 4 -hosts vn2:2,vn1:2 "$mnlaunch" \
    sh -c 'echo "$RANK $(hostname) $LOCAL_RANK $GROUP_RANK $MASTER_ADDR $MASTER_PORT"' >told 2>errors || fail "Hydra: $(cat told errors)"
  address=$(awk '$2 == "vn2" {print $1}' /etc/hosts)
  same 'Hydra: variables' "$(sed "s/$/ $address/" <<<$'0 vn2 0 0\n1 vn2 1 0\n2 vn1 0 1\n3 vn1 1 1')" "$(sort -n told | cut -d' ' -f1-5)"
  same 'Hydra: ports' 1 "$(awk '{print $6}' told | sort -u | wc -l)"
fi

# Launchers that this machine does not have, by what they give their ranks.
start_ranks=$checkout/tests/support/start_ranks
shows 'Flux' "$four" "$start_ranks" flux vn1,vn1,vn2,vn2
compared 'Flux'
shows 'Flux, uneven' "$uneven" "$start_ranks" flux vn1,vn1,vn2
shows 'Flux, cyclic' "$cyclic" "$start_ranks" flux vn1,vn2,vn1,vn2
for how in mvapich2 pals jsrun pmi; do
  echo "variables of $how alone"
  # shellcheck disable=SC2016
  timeout -k 5 60 "$start_ranks" $how vn1,vn2,vn1 "$mnlaunch" --check strict \
    sh -c 'echo "$RANK/$WORLD_SIZE $(hostname) $LOCAL_RANK/$LOCAL_WORLD_SIZE ${GROUP_RANK-unset}"' >told 2>errors || fail "$how: $(cat told errors)"
  same "$how" $'0/3 vn1 0/2 unset\n1/3 vn2 0/1 unset\n2/3 vn1 1/2 unset' "$(sort told)"
done

echo 'nodes of one host name'
for node in vn1 vn2; do "$cluster/two_nodes" in $node hostname node; done
for way in 'srun -Q -N2 --ntasks-per-node=2' "${on_vn1[*]} mpiexec -n 4 -host vn1:2,vn2:2"; do
  # shellcheck disable=SC2086
  timeout -k 5 60 $way "$mnlaunch" --check off --show true >table 2>errors || fail "one host name: $(cat table errors)"
  same "$way, one host name" "${four//vn? }" "$(placement table | cut -d' ' -f1,3,4)"
done
for node in vn1 vn2; do "$cluster/two_nodes" in $node hostname $node; done

echo 'a stale variable'
for mpi in pmix none; do
  seen=0
  timeout -k 5 60 srun -Q --mpi=$mpi -N2 --ntasks-per-node=1 env SLURM_PROCID=0 "$mnlaunch" true >table 2>errors || seen=$?
  [ $seen = 78 ] && grep -q 'error \[sources\] vn2: rank 1: .* says rank 1, but SLURM_PROCID is 0; ' errors ||
    fail "a stale SLURM_PROCID, --mpi=$mpi: status $seen: $(cat errors)"
done

# refuses PATTERN COMMAND…: the rank of which PATTERN is true says so.
refuses() {
  local pattern=$1
  shift
  ! timeout -k 5 60 "$@" "$mnlaunch" true >out 2>errors || fail "not refused: $*"
  grep -q "^mnlaunch: rank [01] on .*$pattern" errors || fail "$*: $(cat errors)"
}
echo 'variables of a launcher that has ended'
refuses 'Open MPI say rank 0 of 1, .* rank 1 of 2' env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_NAMESPACE=gone \
  PMIX_RANK=0 PMIX_SERVER_URI2='gone.0;tcp4://127.0.0.1:9' srun -Q --mpi=none -N2 --ntasks-per-node=1
refuses 'Hydra (PMI) say rank 0 of 1, .* rank 1 of 2' env PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 \
  PMI_PORT=gone:1234 srun -Q --mpi=none -N2 --ntasks-per-node=1

# Neither the nodes' facts nor the verdict of the first are the second's.
second="\"$mnlaunch\" true; exec \"$mnlaunch\" --check strict echo second"
for way in 'srun -Q -N2 -n2' "${on_vn1[*]} mpiexec -x PATH -x OMP_NUM_THREADS -n 2 -host vn1:1,vn2:1"; do
  echo "a second mnlaunch, ${way%% *}"
  # shellcheck disable=SC2086
  timeout -k 5 60 $way sh -c "$second" >out 2>errors || fail "a second mnlaunch: $(cat out errors)"
  same "a second mnlaunch, $way" $'second\nsecond' "$(cat out; grep -v 'plm:rsh: Warning: setpgid' errors)"
done

# What MPI itself sees is what mnlaunch told. The self test also measures the network, which takes long on a busy machine.
export MN_DOCTOR_TIMEOUT=240 OMPI_MCA_mpi_yield_when_idle=1
# Also where mpiexec's own node has no ranks.
for way in 'srun -Q -N2 --ntasks-per-node=2' "${on_vn1[*]} mpiexec -x MN_DOCTOR_TIMEOUT -n 4 -host vn1:2,vn2:2" \
  'salloc -Q -N2 --ntasks-per-node=2 mpiexec -x MN_DOCTOR_TIMEOUT -x OMPI_MCA_mpi_yield_when_idle'; do
  echo "MPI under ${way%% *}"
  # shellcheck disable=SC2086
  ran out timeout -k 5 280 $way "$mnlaunch" "$selftest"
  same "MPI under $way" "$four" "$(awk '$1 ~ /^[0-9]+$/ {print $1, $2, $3, $4}' out)"
done

# Where a site says KillOnBadExit, srun ends the rest at the first rank that is gone; the batch scripts have srun wait.
# Neither may hide what all ask for.
for option in --kill-on-bad-exit=1 '--kill-on-bad-exit=0 --wait=60'; do
  echo "a requeue under $option"
  for last in 0 1; do
    seen=0
    # shellcheck disable=SC2086
    timeout -k 5 60 srun -Q $option -N2 --ntasks-per-node=1 "$mnlaunch" "$build/tests/failing_job" requeue $last >out 2>&1 || seen=$?
    [ $seen = 75 ] || fail "a requeue under $option, rank $last comes last: status $seen, $(cat out)"
  done
done
