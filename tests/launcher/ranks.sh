#!/usr/bin/env bash
# Which rank of which job a process is, by variables alone and by servers, and how a job with wrong or missing ranks ends.
# usage: ranks.sh CASE
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck disable=SC2016
tell='echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE'
# pmi SIZE FIRST SECOND: starts these two ranks of a job of SIZE ranks on one node; leaves their output in out and err.
pmi() {
  local n ranks=("$2" "$3") pids=()
  for n in 0 1; do
    env PMI_RANK="${ranks[n]}" PMI_SIZE="$1" PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ MN_LAUNCH_TIMEOUT=5 \
      timeout 60 "$mnlaunch" --skip distribution sh -c "$tell \${MASTER_ADDR-unset}" >out.$n 2>err.$n &
    pids+=($!)
  done
  for n in 0 1; do wait "${pids[n]}" || fail "variables alone, rank ${ranks[n]} of $1: $(cat err.0 err.1)"; done
  cat out.0 out.1 >out
  cat err.0 err.1 >err
}
# ranks SETTINGS [RANK]: three ranks by variables alone, of which RANK (1) has SETTINGS of its own; leaves err and exit.0 to exit.2.
ranks() {
  local n
  for n in 0 1 2; do
    (
      export PMI_RANK=$n PMI_SIZE=3 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=3
      # shellcheck disable=SC2163,SC2086
      [ $n != "${2:-1}" ] || export $1
      seen=0
      timeout 60 "$mnlaunch" --timeout "${patience:-30}" true >out.$n 2>err.$n || seen=$?
      echo $seen >exit.$n
    ) &
  done
  wait
  cat err.0 err.1 err.2 >err
}
# odd STATUS SETTINGS TEXT [RANK]: as ranks, and all three end with STATUS and the one line TEXT, long before the time-out.
# Each runs in a folder of its own beside the others until all_odd.
odd() {
  (
    mkdir odd.${#cases[@]}
    cd odd.${#cases[@]}
    [ -z "$PMI_JOBID" ] || PMI_JOBID+=.${#cases[@]}
    begin=$SECONDS
    ranks "$2" "${4:-1}"
    [ $((SECONDS - begin)) -lt 20 ] || fail "$2: the others wait for the time-out"
    [ "$(cat exit.0 exit.1 exit.2)" = "$1"$'\n'"$1"$'\n'"$1" ] || fail "$2: statuses $(cat exit.*): $(cat err)"
    one_line "$3"
  ) &
  cases+=($!)
}
cases=()
all_odd() {
  local one
  for one in "${cases[@]:waited}"; do wait "$one" || exit 1; done
  waited=${#cases[@]}
}
waited=0
three_jobs() {
  [ ! -s err ] && [ "$(wc -l <out)" = 6 ] || fail "three jobs at once: $(cat out err)"
  [ "$(cut -d' ' -f1,3 out | sort -u | wc -l)/$(cut -d' ' -f3 out | sort -u | wc -l)" = 3/3 ] || fail "three jobs in one: $(cat out)"
}

case ${1:-} in
  wrong-options-of-one-rank-end-all)  # a rank with wrong options, or with other options than the rest, ends the job at once
    # shellcheck disable=SC2016
    together 2 sh -c '[ $N != 1 ] || exec "$0" --shwo true; exec "$0" true' "$mnlaunch"
    one_line '^mnlaunch: rank 1 on .*: unknown option --shwo; did you mean --show?'
    # shellcheck disable=SC2016
    together 2 sh -c '[ $N != 2 ] || export MNLAUNCH_OPTIONS=--chek; exec "$0" true' "$mnlaunch"
    one_line '^mnlaunch: rank 2 on .*: MNLAUNCH_OPTIONS: unknown option --chek'
    # So are options that one rank has, and others do not.
    odd_options() {
      # shellcheck disable=SC2016
      together 2 sh -c '[ $N != 1 ] || exec "$0" '"$1"' true; exec "$0" '"$2"' true' "$mnlaunch"
      one_line "^mnlaunch: rank 1 on .*: $3 rank 0 does\( not\)\?; give all ranks the same options"
    }
    odd_options '--check off' '' 'it has --check off, and'
    odd_options '' '--check strict' 'it does not have --check strict, as'
    odd_options '--dry-run' '' 'it has --dry-run, and'
    odd_options '' '--dry-run' 'it does not have --dry-run, as'
    odd_options '--doctor' '' 'it has --doctor, and'
    odd_options '--ports 40000-40009' '' 'it has --ports 40000-40009, and'
    odd_options '--check-file a' '--check-file b' 'it has --check-file a, and'
    # The same in another order is told as such.
    # shellcheck disable=SC2016
    together 2 sh -c '[ $N != 1 ] || exec "$0" --check-file b --check-file a true; exec "$0" --check-file a --check-file b true' "$mnlaunch"
    one_line '^mnlaunch: rank 1 on .*: its options come in another order than those of rank 0; '
    ;;
  variables-against-the-server)  # a variable of one rank that contradicts its PMIx server, and a malformed list of nodes
    for victim in 0 1; do
      # shellcheck disable=SC2016
      ! $run sh -c '[ $PMIX_RANK != "$1" ] || export OMPI_COMM_WORLD_SIZE=x; exec "$0" --timeout 10 true' "$mnlaunch" $victim >out 2>err ||
        fail "OMPI_COMM_WORLD_SIZE of rank $victim: $(cat out err)"
      one_line "^mnlaunch: error \[sources\] .*: rank $victim: PMIx .* says size 3, but OMPI_COMM_WORLD_SIZE is x; "
    done
    status 2 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_TASKS_PER_NODE=2 \
      SLURM_STEP_NODELIST='vn[1' "$mnlaunch" true
    one_line 'list of nodes is malformed'
    ;;
  single-programs-take-different-ports)  # programs of one machine that start without a launcher
    for _ in 1 2 3; do
      # shellcheck disable=SC2016
      status 0 "$mnlaunch" sh -c 'echo $MASTER_PORT'
      cat out >>alone.ports
    done
    [ "$(sort -u alone.ports | wc -l)" -gt 1 ] || fail "without a launcher all have the port $(sort -u alone.ports)"
    ;;
  a-rank-with-wrong-variables-says-so)  # whatever it takes for its rank; and time-outs and ports from variables
    for wrong in SLURM_PROCID=abc SLURM_PROCID=-1 SLURM_PROCID=99999999999 SLURM_PROCID=2 'SLURM_PROCID=1 SLURM_LOCALID=' \
      'SLURM_PROCID=1 PMI_FD=abc'; do
      # shellcheck disable=SC2086
      status 2 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 $wrong "$mnlaunch" --timeout 1 true
      one_line "^mnlaunch: \(a \)\?rank .*on .*: "
    done
    status 2 env MN_LAUNCH_TIMEOUT=0 $run "$mnlaunch" true
    one_line 'MN_LAUNCH_TIMEOUT: --timeout is "0": give seconds, at least 1'
    # shellcheck disable=SC2016
    status 0 env MNLAUNCH_OPTIONS='--ports 41000-41009' $run "$mnlaunch" sh -c 'echo $MASTER_PORT'
    [ "$(sort -u out | grep -c '^4100[0-9]$')" = 1 ] && [ "$(sort -u out | wc -l)" = 1 ] || fail "--ports: $(cat out err)"
    ;;
  no-worlds-of-one)  # ranks of torchrun, of a shell loop, of a Slurm job without srun, or of a server that is gone do not start as jobs of one
    status 2 env TORCHELASTIC_RUN_ID=1 "$mnlaunch" true
    one_line 'torchrun started this process'
    # Ranks of a shell loop are never worlds of one each. What surrounds mnlaunch's own launcher does not matter.
    status 2 env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "$mnlaunch" true
    one_line '^mnlaunch: RANK is 1 and WORLD_SIZE 2, but no launcher started this process'
    status 0 env RANK=0 WORLD_SIZE=1 "$mnlaunch" "$mnlaunch" true
    status 2 env SLURM_JOB_ID=7 SLURM_NTASKS=8 "$mnlaunch" true
    one_line '^mnlaunch: .*Slurm job 7 has 8 tasks, but neither srun nor mpiexec started this process'
    status 2 env SLURM_JOB_ID=7 SLURM_NNODES=2 "$mnlaunch" true
    one_line '^mnlaunch: Slurm job 7 has 2 tasks, but neither srun nor mpiexec started this process'
    status 0 env SLURM_JOB_ID=7 SLURM_NTASKS=1 "$mnlaunch" true
    status 0 env SLURM_JOB_ID=7 SLURM_NTASKS=8 $run "$mnlaunch" true
    status 0 env RANK=1 WORLD_SIZE=2 $run "$mnlaunch" "$mnlaunch" true
    status 1 env PMIX_NAMESPACE=gone PMIX_RANK=1 PMIX_SERVER_URI2='gone.0;tcp4://127.0.0.1:9' "$mnlaunch" true
    one_line 'rank 1 on .*; unset the PMIX_\* variables'

    # No world of one where the launcher's variables are gone.
    status 2 $run env -i "$mnlaunch" true
    one_line '^mnlaunch: mpiexec started this process, which has none of its variables'
    # So it is where a script starts mnlaunch, and one rank says for all what is wrong.
    # shellcheck disable=SC2016
    status 2 $run sh -c 'env -i "$0" true; exit $?' "$mnlaunch"
    one_line '^mnlaunch: mpiexec started this process, which has none of its variables'
    # shellcheck disable=SC2016
    status 2 $run sh -c 'TORCHELASTIC_RUN_ID=1 "$0" true; exit $?' "$mnlaunch"
    one_line '^mnlaunch: rank . on .*: torchrun started this process'
    # shellcheck disable=SC2016
    status 2 "$MN_SOURCE_DIR/tests/support/start_ranks" mvapich2 here,here sh -c 'TORCHELASTIC_RUN_ID=1 "$0" true; exit $?' "$mnlaunch"
    one_line '^mnlaunch: rank . on .*: torchrun started this process'
    ;;
  variables-alone-place-each-rank)  # however the nodes are filled; what no variable tells is not exported
    for ranks in '4 0 1' '4 2 3' '4 0 2' '4 1 3' '5 0 1' '5 3 4'; do
      read -r size first second <<<"$ranks"
      # shellcheck disable=SC2086
      pmi $ranks
      if [ "$first" = 0 ]; then
        one_line 'the nodes were not compared, and other nodes than this get no MASTER_ADDR unless you export it'
        ! grep unset out || fail "variables alone: no MASTER_ADDR beside rank 0: $(cat out)"
      else
        [ ! -s err ] || fail "variables alone, ranks $ranks: $(cat err)"
        [ "$(grep -c unset out)" = 2 ] || fail "variables alone, ranks $ranks: a guess for MASTER_ADDR: $(cat out)"
      fi
      [ "$(sed 's/ [^ ]*$//' out)" = "$first $size 0 2"$'\n'"$second $size 1 2" ] || fail "variables alone, ranks $ranks: $(cat out)"
    done
    printf 'first.cluster\nsecond\n' >hosts
    PBS_NODEFILE=$work/hosts pmi 4 1 3
    [ "$(grep -c first.cluster out)" = 2 ] || fail "MASTER_ADDR under PBS: $(cat out)"
    MASTER_ADDR=10.1.2.3 pmi 4 1 3
    [ "$(grep -c 10.1.2.3 out)" = 2 ] || fail "MASTER_ADDR of the user: $(cat out)"
    # Nodes that have not heard of each other say the same: rank 0's too, where it is on the first host, and where the user
    # has exported it. A port that is taken there cannot be told to others.
    hostname >hosts
    PBS_NODEFILE=$work/hosts pmi 4 0 2
    [ "$(grep -c " $(hostname)$" out)" = 2 ] || fail "MASTER_ADDR of rank 0 under PBS: $(cat out)"
    one_line 'the nodes were not compared (srun'
    echo another >hosts
    PBS_NODEFILE=$work/hosts pmi 4 0 2
    one_line 'the nodes were not compared, and other nodes than this get another, another host, as MASTER_ADDR unless you export it'
    MASTER_ADDR=10.1.2.3 pmi 4 0 2
    [ "$(grep -c 10.1.2.3 out)" = 2 ] || fail "MASTER_ADDR of the user beside rank 0: $(cat out)"
    one_line "the nodes were not compared, and MASTER_ADDR is 10.1.2.3, another host than rank 0's (srun"
    MASTER_ADDR=$(hostname) pmi 4 0 2
    one_line 'the nodes were not compared (srun'
    # shellcheck disable=SC2016
    tell='echo $MASTER_PORT' MASTER_ADDR=10.1.2.3 MASTER_PORT=4321 pmi 4 0 2
    [ "$(cut -d' ' -f1 out | sort -u)" = 4321 ] || fail "MASTER_PORT of the user: $(cat out)"
    python3 -c 'import socket, time
taken = socket.create_server(("", 0))
print(taken.getsockname()[1], flush=True)
time.sleep(60)' >taken.port &
    taken=$!
    until [ -s taken.port ]; do sleep 0.05; done
    port=$(cat taken.port)
    for n in 0 1; do
      env PMI_RANK=$n PMI_SIZE=4 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ "$mnlaunch" --ports "$port-$port" true &
    done >out 2>err
    wait -n && fail 'a MASTER_PORT that is taken' || true
    wait -n && fail 'a MASTER_PORT that is taken' || true
    kill $taken
    one_line "port $port, which all nodes take for MASTER_PORT, is in use here; "
    ;;
  odd-variables-of-one-rank-end-all)  # one rank of three by variables alone has a wrong number, count or position
    export PMI_JOBID=$$
    odd 2 PMI_RANK=x '^mnlaunch: a rank on .*: PMI_RANK is "x", which is not a whole number'
    odd 2 PMI_RANK=7 '^mnlaunch: rank 7 on .*: PMI says rank 7 of 3'
    odd 2 PMI_LOCAL_RANK=5 '^mnlaunch: rank 1 on .*: PMI says rank 1 of 3, local rank 5 of 3, .*were changed on the way'
    odd 2 PMI_LOCAL_RANK=x '^mnlaunch: rank 1 on .*: PMI_LOCAL_RANK is "x", which is not a whole number'
    odd 2 PMI_LOCAL_SIZE=4 '^mnlaunch: rank 1 on .*: PMI says rank 1 of 3, local rank 1 of 4'
    odd 2 PMI_SIZE=1 '^mnlaunch: rank 1 on .*: PMI says rank 1 of 1'
    odd 2 PMI_SIZE=x '^mnlaunch: rank 1 on .*: PMI_SIZE is "x"'
    odd 2 PMI_LOCAL_SIZE=x '^mnlaunch: rank 1 on .*: PMI_LOCAL_SIZE is "x"'
    # So too where it is the first of its node, which the others call.
    odd 2 PMI_RANK=x '^mnlaunch: a rank on .*: PMI_RANK is "x"' 0
    odd 2 PMI_LOCAL_RANK=x '^mnlaunch: rank 0 on .*: PMI_LOCAL_RANK is "x"' 0
    odd 2 PMI_LOCAL_RANK=5 '^mnlaunch: rank 0 on .*: PMI says rank 0 of 3, local rank 5 of 3' 0
    odd 2 PMI_LOCAL_RANK=1 '^mnlaunch: rank 0 on .*: PMI says rank 0 of 3, local rank 1 of 3' 0
    odd 2 PMI_SIZE=x '^mnlaunch: rank 0 on .*: PMI_SIZE is "x"' 0
    odd 2 PMI_LOCAL_SIZE=x '^mnlaunch: rank 0 on .*: PMI_LOCAL_SIZE is "x"' 0
    # A variable that is unset, and a count of the node's ranks that another does not share.
    odd 2 PMI_LOCAL_SIZE= '^mnlaunch: rank 1 on .*: PMI started this process, but PMI_LOCAL_SIZE is not set'
    odd 2 PMI_LOCAL_SIZE= '^mnlaunch: rank 0 on .*: PMI started this process, but PMI_LOCAL_SIZE is not set' 0
    odd 78 PMI_LOCAL_SIZE=2 '^mnlaunch: rank 1 on .*: it counts 2 ranks on this node, and rank 0 3; '
    all_odd
    patience=3 ranks PMI_LOCAL_SIZE=2 0  # rank 2 may come when the others have left
    [ "$(cat exit.0 exit.1 exit.2)" = $'78\n78\n78' ] || fail "rank 0 counts others on its node: $(cat exit.* err)"
    one_line '^mnlaunch: rank 1 on .*: it counts 3 ranks on this node, and rank 0 2; '
    odd 78 PMI_RANK=2 'error \[tasks\] .*: 2 processes say that they are rank 2; '
    odd 78 'PMI_RANK=0 PMI_LOCAL_RANK=0' '^mnlaunch: rank 0 on .*: another process of this node has the same number; '
    all_odd
    export PMI_JOBID=
    odd 2 PMI_RANK=x '^mnlaunch: a rank on .*: PMI_RANK is "x", which is not a whole number'
    all_odd
    odd 78 PMI_SIZE=4 'error \[tasks\] .*: rank 1 counts 4 ranks, rank 0 3; '
    all_odd
    odd 78 'PMI_RANK=2 PMI_LOCAL_RANK=2' '^mnlaunch: rank 2 on .*: another process of this node has the same number; '
    all_odd
    export -n PMI_JOBID
    # The same of the rank that the others call.
    ranks 'PMI_SIZE=4' 0
    [ "$(cat exit.0 exit.1 exit.2)" = $'78\n78\n78' ] || fail "rank 0 counts others: $(cat exit.* err)"
    one_line 'error \[tasks\] .*: rank 1 counts 3 ranks, rank 0 4; '
    ;;
  jobs-of-one-name-do-not-mix)  # two jobs that have one name, and ranks that have one number: each ends with a line
    for _ in 1 2 3; do
      for job in a b; do
        for n in 0 1; do
          PMI_RANK=$n PMI_SIZE=2 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ "$mnlaunch" --timeout 3 true &
        done
      done >out 2>err
      wait
      ! grep -v '^mnlaunch: \(\(rank [01] on .*: \)\?another \(process\|job\) \|rank 1 on .*: the first rank of this node \|error \[tasks\] \)' err ||
        fail "two jobs of one name: $(cat err)"
    done
    # Two that say that they are the first of their node: one speaks, whichever came first.
    for _ in 1 2 3 4 5 6; do
      for n in 0 1; do
        (
          seen=0
          PMI_RANK=$n PMI_SIZE=2 PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=2 PMI_JOBID=$$ timeout 60 "$mnlaunch" true 2>err.$n || seen=$?
          echo $seen >exit.$n
        ) &
      done
      wait
      cat err.0 err.1 >err
      [ "$(cat exit.0 exit.1)" = $'78\n78' ] || fail "two first ranks: $(cat exit.0 exit.1 err)"
      one_line '^mnlaunch: rank [01] on .*: another process of this node has the same number; '
    done
    # One speaks too where two that are awaited say that they are the lowest rank.
    for n in 0 1; do
      PMI_RANK=2 PMI_SIZE=4 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ "$mnlaunch" true 2>err.$n &
    done
    wait
    cat err.0 err.1 >err
    one_line '^mnlaunch: error \[tasks\] .*: 2 processes say that they are rank 2; '
    # No worlds of one where others share the node.
    for n in 0 1; do
      PMI_RANK=0 PMI_SIZE=1 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ "$mnlaunch" echo started 2>err.$n &
    done >out
    wait
    [ ! -s out ] || fail "worlds of one beside each other: $(cat out)"
    cat err.0 err.1 >err
    one_line '^mnlaunch: rank 0 on .*: PMI says rank 0 of 1, local rank [01] of 2, '
    # What no rank can know is one line.
    for n in 0 1 2; do
      env PMI_RANK=$n PMI_SIZE=3 "$mnlaunch" true 2>err.$n &
    done
    wait
    cat err.0 err.1 err.2 >err
    one_line '^mnlaunch: .* does not tell which ranks share a node; set [A-Z_]* and [A-Z_]* on each rank'
    ;;
  jobs-at-once-are-told-apart)  # by the process that started their ranks, or by MN_LAUNCH_KEY
    cat >job.sh <<'JOB'
for rank in 0 1; do
  (
    export PMI_RANK=$rank PMI_SIZE=2 PMI_LOCAL_RANK=$rank PMI_LOCAL_SIZE=2
    "$2" sh -c "echo $1 \$RANK \$MASTER_PORT"
  ) &
done
wait
JOB
    for job in a b c; do sh job.sh $job "$mnlaunch" & done >out 2>err
    wait
    three_jobs
    # LSF's job may start several with jsrun.
    sed 's/PMI_/JSM_NAMESPACE_/g; s/export/export LSB_JOBID=77/' job.sh >jsm.sh
    for job in a b c; do sh jsm.sh $job "$mnlaunch" & done >out 2>err
    wait
    three_jobs
    # Jobs that one process starts are told apart by a key of their own.
    for job in a b c; do
      for n in 0 1; do
        # shellcheck disable=SC2016
        env MN_LAUNCH_KEY=$job PMI_RANK=$n PMI_SIZE=2 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ \
          timeout 60 "$mnlaunch" sh -c 'echo $0 $RANK $MASTER_PORT' $job &
      done
    done >out 2>err
    wait
    three_jobs
    ;;
  steps-without-pmix)  # tasks of srun --mpi=none, with right, missing and wrong variables
    step "$mnlaunch" sh -c "$tell"
    [ "$(cat out)" = $'0 2 0 2 0 1\n1 2 1 2 0 1' ] && [ ! -s err ] || fail "a step without PMIx: $(cat out err)"

    step env -u SLURM_GTIDS "$mnlaunch" sh -c "$tell"
    [ "$(cat out)" = $'0 2 0 2 0 1\n1 2 1 2 0 1' ] && [ ! -s err ] || fail "a step without a list of tasks: $(cat out err)"
    for wrong in SLURM_PROCID=x SLURM_LOCALID=5; do
      # shellcheck disable=SC2016
      step sh -c '[ $N != 1 ] || export "$1"; exec "$0" true' "$mnlaunch" $wrong
      [ "$(cat exit.0 exit.1)" = $'2\n2' ] || fail "a step, $wrong: $(cat exit.* err)"
      one_line "^mnlaunch: rank 1 on .*: .*\(SLURM_PROCID is \"x\"\|local rank 5\)"
    done

    # What all ranks lack alike, or cannot read, is one line.
    step env -u SLURM_NODEID "$mnlaunch" true
    [ "$(cat exit.0 exit.1)" = $'2\n2' ] || fail "a step without SLURM_NODEID: $(cat exit.* err)"
    one_line '^mnlaunch: .*SLURM_NODEID is not set'
    step env SLURM_STEP_NUM_TASKS=x "$mnlaunch" true
    [ "$(cat exit.0 exit.1)" = $'2\n2' ] || fail "a step, SLURM_STEP_NUM_TASKS=x: $(cat exit.* err)"
    one_line '^mnlaunch: .*SLURM_STEP_NUM_TASKS is "x"'
    ;;
  flux-and-hydra)  # launchers with a PMI server: Flux knows the nodes and sets no variables about them
    status 0 "$MN_SOURCE_DIR/tests/support/start_ranks" flux here,here "$mnlaunch" sh -c "$tell"
    [ "$(sort out)" = $'0 2 0 2 0 1\n1 2 1 2 0 1' ] || fail "Flux: $(cat out err)"
    # What Flux says of rank 1 cannot be true of a job of one.
    status 2 "$MN_SOURCE_DIR/tests/support/start_ranks" flux here env FLUX_TASK_RANK=1 PMI_RANK=1 "$mnlaunch" true
    one_line '^mnlaunch: rank 1 on '
    if command -v mpiexec.hydra >/dev/null; then
      status 0 mpiexec.hydra -n 3 "$mnlaunch" sh -c 'echo $RANK $WORLD_SIZE'
      [ "$(sort out)" = $'0 3\n1 3\n2 3' ] && [ ! -s err ] || fail "Hydra: $(cat out err)"
      for _ in 1 2 3; do  # ports may meet by chance, but not thrice
        # shellcheck disable=SC2016
        status 0 mpiexec.hydra -n 2 "$mnlaunch" sh -c 'echo $MASTER_ADDR $MASTER_PORT'
        [ "$(sort -u out | wc -l)" = 1 ] || fail "MASTER_PORT under Hydra: $(cat out)"
        cat out >>ports
      done
      [ "$(sort -u ports | wc -l)" -gt 1 ] || fail "Hydra: all jobs have the port $(sort -u ports)"
    fi
    ;;
  a-second-mnlaunch-of-a-job)  # does not take the facts of the first for its own
    status 0 $run sh -c '"$0" true; exec "$0" --show echo second' "$mnlaunch"
    [ "$(grep -c second out)" = 3 ] && [ ! -s err ] || fail "a second mnlaunch: $(cat out err)"
    ;;
  a-death-before-mpi-ends-all)  # a rank that ends before MPI is up, also if a script starts the program
    # shellcheck disable=SC2016
    status 1 $run "$mnlaunch" sh -c '[ $RANK = 1 ] || "$0"; exit 0' "$MN_BUILD_DIR/mnlaunch-selftest"
    grep -q 'mn: rank 0 .*: lost rank 1 on host .*: its process ended before MPI was up; ' err || fail "a script: $(cat out err)"
    ;;
  limits-of-open-files)  # more ranks than files that a process may open: the limit is raised meanwhile, and the program gets the old one
    # shellcheck disable=SC2016
    status 0 env MN_LAUNCH_TIMEOUT=20 mpiexec --oversubscribe -n 12 sh -c 'ulimit -Sn 20; exec "$@"' - "$mnlaunch" sh -c \
      '[ $RANK = 0 ] && exec python3 -c "$0"; exit 0' \
      'import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], len([open("/dev/null") for _ in range(12)]))'
    [ "$(cat out)" = '20 12' ] || fail "a low limit of open files: $(cat out err)"
    status 78 env MN_LAUNCH_TIMEOUT=20 mpiexec --oversubscribe -n 12 sh -c 'ulimit -n 20; exec "$0" true' "$mnlaunch"
    one_line 'the first rank of a node with 12 ranks needs [0-9]* open files, and may have 20; raise the limit'
    ;;
  absent-ranks-are-named)  # also if the rank that speaks is the last to give up: rank 0 comes late
    status 78 env MN_LAUNCH_TIMEOUT=2 $run sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 20; exec '"$mnlaunch"' true'
    one_line 'rank 1 of 3 did not arrive in 2 s; look for a message of its own, or a hung node or file system there'
    status 78 env MN_LAUNCH_TIMEOUT=2 $run sh -c 'case $OMPI_COMM_WORLD_RANK in 2) exec sleep 30 ;; 0) sleep 1.5 ;; esac; exec '"$mnlaunch"' true'
    one_line 'rank 2 of 3 did not arrive in 2 s'
    ;;
  a-pmix-server-that-hangs-is-named)  # and mnlaunch does not hang with it
    cat >stopped.sh <<'STOPPED'
kill -STOP $PPID
unset OMPI_COMM_WORLD_LOCAL_SIZE  # else the variables tell all, and no server is asked
"$1" true 2>stopped.err
echo $? >stopped.status
STOPPED
    MN_LAUNCH_TIMEOUT=1 mpiexec -n 1 sh stopped.sh "$mnlaunch" &
    mpiexec=$!
    for _ in $(seq 300); do [ ! -s stopped.status ] || break; sleep 0.1; done
    kill -9 $mpiexec
    wait $mpiexec || true
    [ "$(cat stopped.status)" = 78 ] && grep -q 'the PMIx server of this node has not answered for 1 s; ' stopped.err ||
      fail "a server that hangs: status $(cat stopped.status), $(cat stopped.err)"
    ;;
  a-late-pmix-server-keeps-mpi)  # MPI_Init works under a server that notes late that mnlaunch has finalized PMIx
    status 0 env LD_PRELOAD="$MN_BUILD_DIR/tests/libmn_late_server.so" mpiexec --oversubscribe -n 3 \
      env -u LD_PRELOAD -u OMPI_COMM_WORLD_LOCAL_SIZE "$mnlaunch" "$MN_BUILD_DIR/mnlaunch-selftest"
    ;;
  *) fail "there is no case ${1:-}" ;;
esac
