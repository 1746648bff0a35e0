#!/usr/bin/env bash
# Each launcher starts jobs/mnist, a Python DDP script and a program of its own MPI, on two nodes with a rank each. With
# MN_JOBS=all also on one node with two ranks, and the DDP script by every launcher.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch
python=$build/torch-env/bin/python
open_mpi_5=${MN_OPEN_MPI_5:-$build/torch-env}
nodes=(2)
[ "${MN_JOBS:-}" != all ] || nodes=(1 2)

# start WAY NODES COMMAND…: starts two ranks; what they print goes to out and err.
start() {
  local way=$1 nodes=$2 command
  shift 2
  local hosts=vn1:2 names=vn1,vn1
  [ "$nodes" = 1 ] || hosts=vn1:1,vn2:1 names=vn1,vn2
  case $way in
    srun*) command=(srun -K -Q "${way#srun }" -N"$nodes" -n2) ;;
    'Open MPI 4') command=("${on_vn1[@]}" mpiexec -x PATH -x OMP_NUM_THREADS -n 2 -host "$hosts" --bind-to none) ;;
    'Open MPI 5') command=("${on_vn1[@]}" env PATH="$open_mpi_5/bin:$PATH" mpiexec -x PATH -x OMP_NUM_THREADS
      --host "$hosts" --bind-to none) ;;
    Hydra) command=("${on_vn1[@]}" mpiexec.hydra -n 2 -hosts "$hosts") ;;
    Flux) command=("$checkout/tests/support/start_ranks" flux "$names") ;;
    # On clusters it is a batch job's list of nodes that tells where rank 0 is.
    variables) command=(env MASTER_ADDR="$(awk '$2 == "vn1" {print $1}' /etc/hosts)"
      "$checkout/tests/support/start_ranks" mvapich2 "$names") ;;
  esac
  timeout -k 5 120 "${command[@]}" "$mnlaunch" "$@" >out 2>err
}
# starts WAY NAME COMMAND…: on one node, on two; of_job tells from out and err whether it was one job of two ranks.
starts() {
  local way=$1 name=$2 number
  shift 2
  for number in "${nodes[@]}"; do
    rm -rf result
    start "$way" "$number" "$@" && of_job || fail "$way, $name, nodes: $number: $(cat out err)"
    echo "$way starts $name, nodes: $number"
  done
}
# rejects WAY NAME COMMAND…: with one line about the MPI; with one for each node where the nodes are not connected
rejects() {
  local way=$1 name=$2 hosts='vn[1-2]'
  shift 2
  [ "$way" != variables ] || hosts=$'vn1\nvn2'
  ! start "$way" 2 "$@" || fail "$way starts $name: $(cat out err)"
  same "$way rejects $name: $(cat err)" "$hosts" "$(sed -n 's/^mnlaunch: error \[mpi\] \(.*\): the program .*/\1/p' err | sort)"
  echo "$way rejects $name"
}

mnist=(jobs/mnist --device cpu --iterations 20 --unit 50 --checkpoint-every none)
train() {  # WAY
  of_job() { grep -q '^Num process (COMM_WORLD): 2$' out && grep -q '"iteration": 20' result/log; }
  starts "$1" jobs/mnist "${mnist[@]}"
}
own_mpi() {  # WAY PROGRAM
  of_job() { [ "$(sort out)" = $'0 of 2, RANK 0\n1 of 2, RANK 1' ]; }
  starts "$1" 'a program of its own MPI' "$work/$2"
}
ddp() {  # WAY
  [ -x "$python" ] || return 0
  of_job() { grep -q '^2 ranks agree$' out; }
  starts "$1" 'Python DDP' "$python" -W ignore "$checkout/tests/launcher/ddp.py"
}

mpicc -o of_open_mpi_4 "$checkout/tests/support/hello_mpi.c"
for way in 'srun --mpi=pmix' 'Open MPI 4'; do
  train "$way"
  own_mpi "$way" of_open_mpi_4
done
if [[ $("$open_mpi_5/bin/mpiexec" --version 2>/dev/null) == *'(Open MPI) 5.'* ]]; then
  "$open_mpi_5/bin/mpicc" -o of_open_mpi_5 "$checkout/tests/support/hello_mpi.c"
  train 'Open MPI 5'
  own_mpi 'Open MPI 5' of_open_mpi_5
  ddp 'Open MPI 5'
else
  echo "Open MPI 5: left out, not in $open_mpi_5 (cmake/setup --python)"
fi
ways=('srun --mpi=pmi2' Flux)
if command -v mpiexec.hydra >/dev/null; then ways+=(Hydra); else echo 'Hydra: left out, no mpiexec.hydra'; fi
for way in "${ways[@]}"; do rejects "$way" jobs/mnist "${mnist[@]}"; done
for way in 'srun --mpi=none' variables; do rejects "$way" jobs/mnist "${mnist[@]}"; done
if command -v mpicc.mpich >/dev/null; then
  mpicc.mpich -o of_mpich "$checkout/tests/support/hello_mpi.c"
  for way in "${ways[@]}"; do own_mpi "$way" of_mpich; done
  rejects 'srun --mpi=none' 'a program of MPICH' "$work/of_mpich"
else
  echo 'MPICH: left out, no mpicc.mpich'
fi
for way in 'srun --mpi=pmix' Flux variables; do ddp "$way"; done
[ "${MN_JOBS:-}" != all ] || for way in 'srun --mpi=pmi2' 'srun --mpi=none' 'Open MPI 4' Hydra; do ddp "$way"; done
