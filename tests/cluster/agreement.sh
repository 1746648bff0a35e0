#!/usr/bin/env bash
# Under every launcher, on two nodes with two ranks each: all ranks leave with one status after one line, whatever goes
# wrong on one of them; the ranks of a node divide its GPUs and cores; and the launcher sees a program that ends.
# Most of that is waiting, so launchers are tried beside each other; Slurm has room for one step at a time.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnlaunch=$build/mnlaunch

# Makes a new current folder with what each rank starts: COMMAND with the rank in $N; the status goes to exit.N.
enter_folder() {
  mkdir "$work/$1"
  cd "$work/$1"
  cat >rank <<RANK
#!/bin/sh
export N=\${PMIX_RANK:-\${PMI_RANK:-\${MV2_COMM_WORLD_RANK:-\$SLURM_PROCID}}}
"\$@"
echo \$? >"$PWD/exit.\$N"
RANK
  # A rank that never comes, until the three others have left; 15 s at most.
  cat >stay_away <<AWAY
#!/bin/sh
for _ in \$(seq 150); do
  [ "\$(ls "$PWD"/exit.* 2>/dev/null | wc -l)" -lt 3 ] || exit 0
  sleep 0.1
done
AWAY
  chmod +x rank stay_away
}

declare -A ways=(
  [srun --mpi=pmix]='srun -Q --mpi=pmix -N2 --ntasks-per-node=2'
  [srun --mpi=pmi2]='srun -Q --mpi=pmi2 -N2 --ntasks-per-node=2'
  [srun --mpi=none]='srun -Q --mpi=none -N2 --ntasks-per-node=2'
  [Flux]="$checkout/tests/support/start_ranks flux vn1,vn1,vn2,vn2"
  [variables alone]="$checkout/tests/support/start_ranks mvapich2 vn1,vn1,vn2,vn2"
  [mpiexec]="${on_vn1[*]} mpiexec -mca orte_abort_on_non_zero_status 0 -x PATH -x OMP_NUM_THREADS -x MN_LAUNCH_TIMEOUT -n 4 -host vn1:2,vn2:2 --bind-to none"
)
if command -v mpiexec.hydra >/dev/null; then
  ways[Hydra]="${on_vn1[*]} mpiexec.hydra -n 4 -hosts vn1:2,vn2:2"
else
  echo 'Hydra: left out, no mpiexec.hydra'
fi
open_mpi_5=${MN_OPEN_MPI_5:-$build/torch-env}
if [[ $("$open_mpi_5/bin/mpiexec" --version 2>/dev/null) == *'(Open MPI) 5.'* ]]; then
  ways[Open MPI 5]="${on_vn1[*]} env PATH=$open_mpi_5/bin:$PATH mpiexec --rtos error-nonzero-status=0 -x PATH -x OMP_NUM_THREADS -x MN_LAUNCH_TIMEOUT --host vn1:2,vn2:2 --bind-to none"
else
  echo "Open MPI 5: left out, not in $open_mpi_5 (cmake/setup --python)"
fi

# run COMMAND…: on each rank, by the way $way; out and err have what they print, exits what they end with.
run() {
  rm -f exit.*
  # shellcheck disable=SC2086
  timeout -k 5 60 ${ways[$way]} "$PWD/rank" "$@" >out 2>err || true
  exits=$(for n in 0 1 2 3; do cat exit.$n 2>/dev/null || echo none; done | tr '\n' ' ')
}
# ends STATUSES [STATUSES]: of ranks 0 to 3; the second ones where each node is by itself
ends() {
  local wanted=$1
  [ "$way" != 'variables alone' ] || wanted=${2:-$1}
  [ "$exits" = "$wanted " ] || fail "$way, $name: ranks end with $exits, not $wanted: $(cat out err)"
}
# said: mnlaunch's lines, but for the one that says that the nodes were not compared
said() { sed -n '/^mnlaunch: note: .*the nodes were not compared/d; /^mnlaunch: /p' err; }
# one_line PATTERN: the only line of mnlaunch
one_line() {
  [ "$(said | wc -l)" = 1 ] && said | grep -qE "^mnlaunch: $1" || fail "$way, $name: no line \"$1\": $(cat out err)"
}

for node in vn1 vn2; do
  "$cluster/two_nodes" in $node sh -c 'rm -rf /tmp/local; mkdir /tmp/local'  # other tests leave files there
  "$cluster/two_nodes" in $node sh -c "printf '#!/bin/sh\n' >/tmp/local/script; chmod +x /tmp/local/script"
done
"$cluster/two_nodes" in vn1 sh -c "echo true >/tmp/local/data; cp /bin/true /tmp/local/program"
"$cluster/two_nodes" in vn2 sh -c "printf '#!/no/such/interpreter\n' >/tmp/local/script; touch /tmp/local/logs"

try_way() {
  way=$1
  echo "$way"
  enter_folder "${way//[^a-zA-Z0-9]/_}"  # spaces do not pass through every launcher
  name='exit statuses of the program'
  # shellcheck disable=SC2016
  run "$mnlaunch" --check strict sh -c 'exit $((10 + RANK))'
  ends '10 11 12 13'
  [ -z "$(said)" ] || fail "$way is not silent: $(cat err)"

  name='no interpreter on one node'
  run "$mnlaunch" /tmp/local/script
  ends '78 78 78 78' '0 0 126 126'
  one_line '(error \[program\]|rank 2 on) vn2: cannot run /tmp/local/script: the interpreter .*'
  run "$mnlaunch" --check off /tmp/local/script
  ends '126 126 126 126' '0 0 126 126'
  one_line 'rank 2 on vn2: cannot run /tmp/local/script: '

  name='no program on one node'
  run "$mnlaunch" /tmp/local/program --option
  ends '78 78 78 78' '0 0 127 127'
  one_line '(error \[program\]|rank 2 on) vn2: program "/tmp/local/program" was not found'

  name='no script on one node'
  run "$mnlaunch" sh /tmp/local/data
  if [ "$way" != 'variables alone' ]; then  # there both ranks of vn2 lack it, and sh says so
    ends '78 78 78 78'
    one_line 'error \[program\] vn2: .*/tmp/local/data'
  fi

  name='a wrong option of one rank'
  # shellcheck disable=SC2016
  run sh -c '[ "$N" != 3 ] || exec "$0" --shwo true; exec "$0" true' "$mnlaunch"
  ends '2 2 2 2' '0 0 2 2'
  one_line 'rank 3 on vn2: unknown option --shwo; did you mean --show?'

  # Numbers that cannot be right: of a member of its node, and of the node's first rank.
  variable=''
  [ "$way" != 'srun --mpi=none' ] || variable=SLURM_PROCID
  [ "$way" != 'variables alone' ] || variable=MV2_COMM_WORLD_RANK
  for victim in 2 3; do
    [ -n "$variable" ] || continue
    name="$variable of rank $victim"
    # shellcheck disable=SC2016
    run sh -c '[ "$N" != "$1" ] || export "$2=x"; exec "$0" true' "$mnlaunch" $victim $variable
    ends '2 2 2 2' '0 0 2 2'
    one_line "(a rank|rank $victim) on vn2: $variable is \"x\", which is not a whole number"
  done

  name='other ports on one node'
  # shellcheck disable=SC2016
  run sh -c '[ "$N" -lt 2 ] || exec "$0" --ports 41000-41009 true; exec "$0" true' "$mnlaunch"
  ends '2 2 2 2' '0 0 0 0'
  [ "$way" = 'variables alone' ] || one_line 'rank 2 on vn2: it has --ports 41000-41009, and rank 0 does not; give all ranks the same options'

  name='no folder for output on one node'
  run "$mnlaunch" --output /tmp/local/logs/of-ranks true
  ends '2 2 2 2' '0 0 2 2'
  one_line 'rank 2 on vn2: --output: cannot make /tmp/local/logs/of-ranks: '

  name='a check that fails on one node'
  run "$mnlaunch" --check-file /tmp/local/data true
  ends '78 78 78 78' '0 0 78 78'
  one_line 'error \[files\] vn2: '

  # Rank 2 is the first of its node, through which rank 3 hears of the others.
  for absent in '3/78 78 78 0/0 0 78 0' '2/78 78 0 78/0 0 0 78'; do
    IFS=/ read -r victim all alone <<<"$absent"
    name="rank $victim never comes"
    # shellcheck disable=SC2016
    MN_LAUNCH_TIMEOUT=3 run sh -c '[ "$N" != "$1" ] || exec "$2"; exec "$0" true' "$mnlaunch" "$victim" "$PWD/stay_away"
    # Where a process has spoken to its server and one has not, mpiexec ends all when the first leaves.
    if [[ $way = mpiexec || $way = Open* ]]; then [ "${exits%% *}" = 78 ] || fail "$way, $name: $exits: $(cat out err)"; else ends "$all" "$alone"; fi
    one_line 'error \[tasks\] vn2: .*ranks? .*of 4 did not arrive in 3 s[;,] |error \[tasks\] all nodes: some ranks of 4 did not arrive|rank 3 on vn2: the first rank of this node did not arrive in 3 s; '
  done

  name='cores'
  # shellcheck disable=SC2016
  run "$mnlaunch" sh -c 'echo "$RANK $(sed -n "s/Cpus_allowed_list:\t//p" /proc/self/status)"'
  [ "$(sort out | sed -n '1p;2p' | cut -d' ' -f2 | sort -u | wc -l)" = 2 ] || fail "$way: ranks share cores: $(cat out err)"

  fake=$build/tests/fake
  [ -e "$fake/libnvidia-ml.so.1" ] || return 0
  name='GPUs of the node'
  # shellcheck disable=SC2016
  run env -u CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=2 "$mnlaunch" sh -c 'echo "$RANK $MN_DEVICE"'
  same "$way, $name" $'0 cuda:0\n1 cuda:1\n2 cuda:0\n3 cuda:1' "$(sort out)"
  name='a GPU for each rank'
  # shellcheck disable=SC2016
  run sh -c 'CUDA_VISIBLE_DEVICES=$((N % 2)) LD_LIBRARY_PATH=$0 MN_FAKE_GPUS=2 exec "$1" sh -c "$2"' "$fake" "$mnlaunch" \
    'echo "$RANK $MN_DEVICE $LOCAL_RANK $CUDA_VISIBLE_DEVICES"'
  same "$way, $name" $'0 cuda:0 0 0\n1 cuda:0 0 1\n2 cuda:0 0 0\n3 cuda:0 0 1' "$(sort out)"
}

try_signals() {
  echo 'srun: a signal of the step under --label'
  timeout -k 5 60 srun -Q -N2 --ntasks-per-node=2 "$mnlaunch" --label python3 "$checkout/tests/support/count_signals.py" ready >out 2>err &
  within 30 test -e ready.0 -a -e ready.1 -a -e ready.2 -a -e ready.3 || fail "no start: $(cat out err)"
  scancel --signal=USR1 "$(squeue -h -o %A)"
  wait $! || true
  same 'signals of the step' "$(for r in 0 1 2 3; do echo "$r: got 1"; done)" "$(sort out)"
}

# What no rank has ends all with one line; where none of srun's variables is left there is one on each node.
try_odd_variables() {
  for mpi in none pmix pmi2; do
    echo "srun --mpi=$mpi without its variables, and with others on one node"
    srun=(timeout 60 srun -Q --mpi=$mpi -N2 --ntasks-per-node=2)
    ! "${srun[@]}" env -u SLURM_NODEID "$mnlaunch" true >out 2>err || fail "without SLURM_NODEID the ranks start: $(cat out err)"
    [ "$(said)" = "$(said | grep 'SLURM_NODEID is not set')" ] && [ "$(said | wc -l)" = 1 ] || fail "without SLURM_NODEID: $(cat err)"
    for wrong in SLURM_NODEID=0 SLURM_NODEID=7 'SLURM_STEP_NODELIST=vn[1,3]' 'SLURM_STEP_NODELIST=vn[3-4]'; do
      # shellcheck disable=SC2016
      ! "${srun[@]}" sh -c '[ "$SLURM_PROCID" -lt 2 ] || export "$1"; exec "$0" true' "$mnlaunch" "$wrong" >out 2>err || fail "$wrong on one node: the ranks start: $(cat out err)"
      [ "$(said)" = "$(said | grep '^mnlaunch: rank 2 on vn2: SLURM_NODEID is .*, but SLURM_STEP_NODELIST does not have vn2 there')" ] && [ "$(said | wc -l)" = 1 ] ||
        fail "$wrong on one node: $(cat err)"
    done
    ! "${srun[@]}" env -i "$mnlaunch" true >out 2>err || fail "worlds of one: $(cat out err)"
    [ "$(said | grep -c 'has none of its variables')/$(said | wc -l)" = 2/2 ] || fail "without variables: $(cat err)"
    for gone in -i '-u PMIX_RANK -u PMI_RANK -u SLURM_PROCID'; do
      # shellcheck disable=SC2016
      ! "${srun[@]}" sh -c 'env $1 "$0" true; exit $?' "$mnlaunch" "$gone" >out 2>err || fail "a script's worlds of one: $(cat out err)"
      [ "$(said | grep -c 'has none of its variables')/$(said | wc -l)" = 2/2 ] || fail "a script, env $gone: $(cat err)"
    done
    # shellcheck disable=SC2016
    timeout 60 srun -Q --mpi=$mpi -N1 -n1 sh -c 'env -u PMIX_RANK -u PMI_RANK -u SLURM_PROCID "$0" true; exit $?' "$mnlaunch" || fail 'alone in a step'
  done
  sbatch -Q -W -N1 -n1 --output=batch.txt --wrap "env -i $mnlaunch true" || fail "alone in a batch script: $(cat batch.txt)"
}

# hydra COMMAND…: $ranks ranks on $hosts
hydra() { "${on_vn1[@]}" timeout -k 5 90 mpiexec.hydra -n "$ranks" -hosts "$hosts" "$@"; }
try_crashes() {
  command -v mpiexec.hydra >/dev/null && command -v mpicc.mpich >/dev/null || return 0
  cat >crash.c <<'CRASH'
#include <mpi.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);  // before, an error of MPI would end the others
  if (rank == 1 && strcmp(argv[argc - 1], "killed") == 0) raise(SIGKILL);
  if (rank == 1) _exit(3);
  sleep(15);
  char name[] = "stays.0";
  name[6] += rank;
  creat(name, 0644);
  _exit(4);
}
CRASH
  mpicc.mpich -o crash crash.c
  # Without mnlaunch as well: Hydra ends the ranks of that node, and tells its other nodes if it was a signal.
  for crash in 'vn1:2 exits' 'vn1:2 killed' 'vn1:2,vn2:2 exits' 'vn1:2,vn2:2 killed'; do
    read -r hosts how <<<"$crash"
    ranks=$((2 * $(tr , '\n' <<<"$hosts" | wc -l)))
    for launcher in '' "$mnlaunch"; do
      echo "Hydra, $hosts, ${launcher:+mnlaunch, }rank 1 $how without MPI_Finalize"
      rm -f stays.*
      status=0
      hydra ${launcher:+"$launcher"} ./crash "$how" >out 2>err || status=$?
      [ $status != 0 ] && [ $status != 124 ] && ! grep '^mnlaunch' err || fail "status $status: $(cat out err)"
      [ ! -e stays.0 ] || fail "rank 0 stays: $(cat out err)"
    done
  done
  for hosts in vn1:2 vn1:2,vn2:2; do
    ranks=$((2 * $(tr , '\n' <<<"$hosts" | wc -l)))
    echo "Hydra, $hosts: a program without MPI that ends early"
    # shellcheck disable=SC2016
    hydra "$mnlaunch" sh -c '[ $RANK = 1 ] || sleep 2; echo done' >out 2>err || fail "Hydra, $hosts: $(cat out err)"
    [ "$(grep -c done out)" = $ranks ] || fail "Hydra, $hosts: $(cat out err)"
  done
  ranks=4 hosts=vn1:2,vn2:2
  # The connection that a script has to Hydra serves one mnlaunch after the other, and Hydra still sees a crash.
  mpicc.mpich -o hello "$checkout/tests/support/hello_mpi.c"
  echo 'Hydra: a second mnlaunch'
  # shellcheck disable=SC2016
  hydra sh -c '"$0" true; "$0" true; exec "$0" --check strict ./hello' "$mnlaunch" >out 2>err || fail "Hydra, a second mnlaunch: $(cat out err)"
  [ ! -s err ] && [ "$(grep -c ' of 4, RANK ' out)" = 4 ] || fail "Hydra, a second mnlaunch: $(cat out err)"
  # shellcheck disable=SC2016
  hydra "$mnlaunch" "$mnlaunch" --check strict ./hello >out 2>err || fail "Hydra, mnlaunch in mnlaunch: $(cat out err)"
  [ ! -s err ] && [ "$(grep -c ' of 4, RANK ' out)" = 4 ] || fail "Hydra, mnlaunch in mnlaunch: $(cat out err)"
  rm -f stays.*
  # shellcheck disable=SC2016
  ! hydra sh -c '"$0" true; exec "$0" ./crash exits' "$mnlaunch" >out 2>err || fail 'Hydra: a crash is not seen'
  [ ! -e stays.0 ] || fail "Hydra, a second mnlaunch: rank 0 stays: $(cat out err)"
  echo 'Hydra: mnlaunch after MPI has finalized'
  # shellcheck disable=SC2016
  hydra sh -c '"$0" ./hello; exec "$0" echo second' "$mnlaunch" >out 2>err || fail "Hydra, after MPI: $(cat out err)"
  [ "$(grep -c second out)" = 4 ] && [ "$(grep -c '^mnlaunch: note: .*were not compared' err)" = 1 ] || fail "Hydra, after MPI: $(cat out err)"
}

try_ways() {
  local each
  for each in "$@"; do
    [ -z "${ways[$each]:-}" ] || try_way "$each"
  done
}
by_slurm() {
  try_ways 'srun --mpi=pmix' 'srun --mpi=pmi2' 'srun --mpi=none'
  enter_folder steps
  try_signals
  try_odd_variables
}
by_mpiexec() { try_ways mpiexec 'Open MPI 5' Hydra; }
by_others() {
  try_ways Flux 'variables alone'
  enter_folder crashes
  try_crashes
}
all=()
for these in by_slurm by_mpiexec by_others; do
  $these &
  all+=($!)
done
for one in "${all[@]}"; do wait "$one" || exit 1; done
