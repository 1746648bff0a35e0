#!/usr/bin/env bash
# mnlaunch as users meet it on one machine: silence, exports, exit statuses, output folders.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMP_NUM_THREADS

# step COMMAND…: two tasks of one node, as srun --mpi=none starts them; $N is the task's number. Their output is in out
# and err, their exit statuses in exit.0 and exit.1.
step() {
  local n
  steps=$((steps + 1))
  for n in 0 1; do
    (
      export N=$n SLURM_JOB_ID=$$ SLURM_STEP_ID=$steps SLURM_PROCID=$n SLURM_LOCALID=$n SLURM_NODEID=0 SLURM_GTIDS=0,1
      export SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1
      seen=0
      timeout 60 "$@" >out.$n 2>err.$n || seen=$?
      echo $seen >exit.$n
    ) &
  done
  wait
  cat out.0 out.1 >out
  cat err.0 err.1 >err
}
steps=0

! ldd "$mnlaunch" | grep -Ei 'libmpi|libpmix|torch|cuda|nccl|nvidia' || fail 'mnlaunch links what it must not'

status 0 "$mnlaunch" --version
[[ $(cat out) =~ ^mnlaunch\ [0-9.]+,\ built\ with\ (Open\ MPI|MPICH|Intel\ MPI|MVAPICH2)\ [0-9.]+ ]] || fail "--version: $(cat out)"

status 0 "$mnlaunch" true
[ ! -s out ] && [ ! -s err ] || fail "not silent: $(cat out err)"
status 0 $run "$mnlaunch" true
[ ! -s out ] && [ ! -s err ] || fail "not silent under mpiexec: $(cat out err)"

# shellcheck disable=SC2016
status 0 $run "$mnlaunch" sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE \
$MN_RANK $MN_SIZE $MN_INTRA_RANK $MN_INTRA_SIZE $MN_INTER_RANK $MN_INTER_SIZE $MN_DEVICE $MASTER_ADDR $OMP_NUM_THREADS'
[ "$(sort out | sed 's/ [1-9][0-9]*$//')" = "$(for r in 0 1 2; do echo "$r 3 $r 3 0 1 $r 3 $r 3 0 1 cpu 127.0.0.1"; done)" ] ||
  fail "exports: $(cat out)"
# shellcheck disable=SC2016
status 0 $run "$mnlaunch" sh -c 'echo $MASTER_PORT'
[ "$(sort -u out | wc -l)" = 1 ] || fail "MASTER_PORT differs: $(cat out)"
# shellcheck disable=SC2016
status 0 env OMP_NUM_THREADS=7 "$mnlaunch" sh -c 'echo $OMP_NUM_THREADS'
[ "$(cat out)" = 7 ] || fail 'OMP_NUM_THREADS was changed'

status 5 "$mnlaunch" sh -c 'exit 5'
status 2 $run "$mnlaunch" --shwo true
one_line 'unknown option --shwo; did you mean --show?'
status 2 $run "$mnlaunch" ''
one_line 'no PROGRAM given'
status 127 $run "$mnlaunch" no-such-program
one_line 'no-such-program'
# A file of the current folder is not taken for a program of PATH.
printf '#!/bin/sh\necho of the current folder\n' | tee true >only-here
chmod +x true only-here
status 0 "$mnlaunch" true
[ ! -s out ] || fail "./true instead of true: $(cat out)"
status 0 env -u PATH "$mnlaunch" true
[ ! -s out ] || fail "./true instead of true without PATH: $(cat out)"
status 127 "$mnlaunch" only-here
one_line './only-here is the one of the current folder'
status 0 "$mnlaunch" ./only-here
rm true only-here
: >data
status 126 $run "$mnlaunch" ./data
one_line 'not executable'
mkdir folder
status 126 "$mnlaunch" ./folder
one_line 'folder is a folder; '
# unrunnable TEXT PATTERN: an executable file of that text; the line that comes of it
unrunnable() {
  printf "$1" >script
  chmod +x script
  status 126 "$mnlaunch" ./script
  one_line "cannot run .*/script: $2"
}
unrunnable '#!/no/such/interpreter\n' 'the interpreter of its first line, #!/no/such/interpreter, is not on this node; '
unrunnable '#!/bin/sh\r\necho\r\n' 'its lines end as on Windows; convert it'
unrunnable 'echo\n' 'it is neither a program for this processor nor a script; '
cp /bin/true other
printf '\377' | dd of=other bs=1 seek=18 conv=notrunc status=none  # the kind of processor
status 126 $run "$mnlaunch" ./other
one_line 'cannot run .*/other: it is for another kind of processor; '
# What a script names is looked at as far as it may be a program: a pipe is left alone.
mkfifo pipe
printf '#!/bin/sh\ncat /dev/stdin # %s/pipe\n' "$work" >script
status 0 "$mnlaunch" ./script <<<'for the program'
[ "$(cat out)" = 'for the program' ] || fail "standard input was read: $(cat out)"
rm pipe other

# together STATUS COMMAND…: rank N of three runs COMMAND with $N set; all end with STATUS, and there is one line in all.
together() {
  local wanted=$1
  shift
  rm -f exit.*
  # shellcheck disable=SC2016
  $run sh -c 'N=$OMPI_COMM_WORLD_RANK; export N; "$@"; echo $? >"exit.$N"' - "$@" >out 2>err || true
  [ "$(cat exit.0 exit.1 exit.2)" = $wanted$'\n'$wanted$'\n'$wanted ] || fail "$*: statuses $(cat exit.*): $(cat out err)"
}
printf '#!/no/such/interpreter\n' >script
together 126 "$mnlaunch" ./script
one_line '^mnlaunch: cannot run .*/script: the interpreter of its first line'
together 126 "$mnlaunch" --check off ./script
one_line '^mnlaunch: rank 0 on .*: cannot run .*/script: the interpreter of its first line'
# Wrong options of one rank are the end of all, at once.
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
# A script that is nowhere is missed once, not by each rank's interpreter.
for words in 'sh no-such.sh' 'python3 -u no-such.py 1'; do
  # shellcheck disable=SC2086
  together 127 "$mnlaunch" $words
  one_line '^mnlaunch: script "no-such\.[a-z]*" was not found in '
done
status 0 "$mnlaunch" sh -c 'true no-such.sh'
: >rank-1
mkdir -p rank-0 rank-2
# shellcheck disable=SC2016
together 2 sh -c 'exec "$0" --output "rank-$N/logs" true' "$mnlaunch"
one_line '^mnlaunch: rank 1 on .*: --output: cannot make rank-1/logs'
rm -r rank-?

# Nothing is open in the program that its launcher did not open.
$run sh -c 'ls -l /proc/self/fd | sed "s/.* -> //; s/[0-9][0-9]*//g" | sort' | sort >bare.fds
$run "$mnlaunch" sh -c 'ls -l /proc/self/fd | sed "s/.* -> //; s/[0-9][0-9]*//g" | sort' | sort >through.fds
cmp bare.fds through.fds || fail "left open: $(diff bare.fds through.fds)"
# Nor is anything closed, or opened where its launcher had closed it.
# shellcheck disable=SC2016
status 0 $run sh -c 'exec "$0" "$@" <&- >&- 2>&-' "$mnlaunch" --show \
  sh -c 'exec >"closed.$RANK"; for n in 0 1 2; do [ ! -e /proc/self/fd/$n ] || echo $n; done'
[ "$(cat closed.0 closed.1 closed.2)" = $'1\n1\n1' ] || fail "without standard streams: $(cat closed.*)"
# shellcheck disable=SC2016
[ "$($run "$mnlaunch" sh -c 'echo "${PMIX_MCA_gds-}"' | sort -u)" = '' ] || fail 'PMIX_MCA_gds is set'
status 2 "$mnlaunch" --output '' true
one_line '--output is empty'
status 2 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_TASKS_PER_NODE=2 \
  SLURM_STEP_NODELIST='vn[1' "$mnlaunch" true
one_line 'list of nodes is malformed'

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

# Single checks, by option and by variable.
status 78 "$mnlaunch" --check-file absent true
one_line 'error \[files\]'
status 0 "$mnlaunch" --check-file absent --skip files true
[ ! -s err ] || fail "--skip: $(cat err)"
status 0 env MNLAUNCH_OPTIONS='--warn files' "$mnlaunch" --check-file absent true
one_line 'warning \[files\]'
status 2 $run "$mnlaunch" --skip flies true
one_line '--skip flies: there is no such check; there are .*files'
status 2 env MNLAUNCH_OPTIONS='--chek off' $run "$mnlaunch" true
one_line 'MNLAUNCH_OPTIONS: unknown option --chek; did you mean --check?'

# Cores and memory by hand.
cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
status 0 $run "$mnlaunch" --cpu-map "$cpu:$cpu:$cpu" --skip affinity grep Cpus_allowed_list /proc/self/status
[ "$(sed 's/.*\t//' out | sort -u)" = "$cpu" ] || fail "--cpu-map: $(cat out err)"
for list in 4095 "$cpu,4095"; do
  status 2 $run "$mnlaunch" --cpu-map "$list:$list:$list" --skip affinity true
  one_line "cannot bind to the CPUs $list: this rank was given [-0-9,]*; give others (--cpu-map)"
done
status 78 $run "$mnlaunch" --cpu-map "$cpu" true
one_line 'error \[affinity\] .*--cpu-map has 1 lists of CPUs for 3 ranks'
status 0 "$mnlaunch" --bind-threads sh -c 'echo $OMP_PLACES $OMP_PROC_BIND'
[ "$(cat out)" = 'cores close' ] || fail "--bind-threads: $(cat out)"
if grep -q '^Mems_allowed_list' /proc/self/status && [ -e /sys/devices/system/node/node0 ]; then
  status 0 "$mnlaunch" --mem-bind local sh -c 'grep -c bind: /proc/self/numa_maps || [ ! -e /proc/self/numa_maps ]'
fi

# The nearest network card, of a recorded machine whose ports are made up.
mkdir -p hardware/sys/class/infiniband hardware/proc hardware/dev/shm
for nic in 0 1 2 3 4 5; do
  mkdir -p hardware/sys/class/infiniband/mlx5_$nic/ports/1
  echo '4: ACTIVE' >hardware/sys/class/infiniband/mlx5_$nic/ports/1/state
done
# shellcheck disable=SC2016
nic_of() {
  status 0 env HWLOC_XMLFILE="$MN_SOURCE_DIR/tests/launcher/topologies/h200x4-turin.xml" MN_HARDWARE_ROOT="$work/hardware" \
    "$mnlaunch" --check off --bind none "$@" sh -c 'echo "$MN_NIC ${UCX_NET_DEVICES-none} ${NCCL_IB_HCA-none}"'
}
nic_of
[[ $(cat out) =~ ^mlx5_[0-9]\ none\ none$ ]] || fail "MN_NIC: $(cat out err)"
nic_of --bind-nic
[[ $(cat out) =~ ^(mlx5_[0-9])\ (mlx5_[0-9]):1\ =(mlx5_[0-9]):1$ ]] && [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] ||
  fail "--bind-nic: $(cat out err)"
UCX_NET_DEVICES=mine nic_of --bind-nic
[[ $(cat out) =~ \ mine\ =mlx5 ]] || fail "--bind-nic overrides the user: $(cat out err)"

# Programs of one machine that start at once do not take one port.
for _ in 1 2 3; do
  # shellcheck disable=SC2016
  status 0 "$mnlaunch" sh -c 'echo $MASTER_PORT'
  cat out >>alone.ports
done
[ "$(sort -u alone.ports | wc -l)" -gt 1 ] || fail "without a launcher all have the port $(sort -u alone.ports)"

status 1 sh -c '"$0" --dry-run >/dev/full' "$mnlaunch"
one_line 'cannot write standard output: No space left on device'
status 0 $run "$mnlaunch" --dry-run --json sh -c 'echo started'
python3 -c 'import json,sys; d=json.load(open("out")); assert [r["rank"] for r in d["placement"]] == [0,1,2], d' ||
  fail "--json: $(cat out)"

# GPUs of a driver library that pretends: one for each rank, and never one for two unless that is asked for.
fake=$MN_BUILD_DIR/tests/fake
if [ -e "$fake/libnvidia-ml.so.1" ]; then
  unset CUDA_VISIBLE_DEVICES
  # shellcheck disable=SC2016
  tell='echo "$RANK $MN_DEVICE ${CUDA_VISIBLE_DEVICES-all}"'
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 all\n1 cuda:1 all\n2 cuda:2 all' ] || fail "MN_DEVICE: $(cat out err)"
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" --gpu-visibility one sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 GPU-abc0\n1 cuda:0 GPU-abc1\n2 cuda:0 GPU-abc2' ] || fail "--gpu-visibility: $(cat out err)"
  # CUDA numbers GPUs as NVML does, unless the user wants it otherwise.
  # shellcheck disable=SC2016
  order='echo "${CUDA_DEVICE_ORDER-none}"'
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=1 "$mnlaunch" sh -c "$order"
  [ "$(cat out)" = PCI_BUS_ID ] || fail "CUDA_DEVICE_ORDER: $(cat out err)"
  status 0 env CUDA_DEVICE_ORDER=FASTEST_FIRST LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=1 "$mnlaunch" sh -c "$order"
  [ "$(cat out)" = FASTEST_FIRST ] || fail "CUDA_DEVICE_ORDER of the user: $(cat out err)"
  # torch.cuda.set_device(LOCAL_RANK) selects the rank's own GPU whatever it sees.
  # shellcheck disable=SC2016
  torch='echo "$RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $MN_INTRA_RANK ${CUDA_VISIBLE_DEVICES-all}"'
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" sh -c "$torch"
  [ "$(sort out)" = $'0 0 3 0 1 0 all\n1 1 3 0 1 1 all\n2 2 3 0 1 2 all' ] || fail "LOCAL_RANK: $(cat out err)"
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" --gpu-visibility one sh -c "$torch"
  [ "$(sort out)" = $'0 0 1 0 3 0 GPU-abc0\n1 0 1 1 3 1 GPU-abc1\n2 0 1 2 3 2 GPU-abc2' ] ||
    fail "LOCAL_RANK with one GPU visible: $(cat out err)"
  # shellcheck disable=SC2016
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run sh -c \
    'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_RANK exec "$0" sh -c "$1"' "$mnlaunch" "$torch"
  [ "$(sort out)" = $'0 0 1 0 3 0 0\n1 0 1 1 3 1 1\n2 0 1 2 3 2 2' ] || fail "LOCAL_RANK of a scheduler's GPU: $(cat out err)"
  # Without PMIx too, GPUs that the scheduler gave to one rank each are not taken for those of all.
  # shellcheck disable=SC2016
  LD_LIBRARY_PATH=$fake MN_FAKE_GPUS=2 step sh -c 'CUDA_VISIBLE_DEVICES=$N exec "$0" sh -c "$1"' "$mnlaunch" "$torch"
  [ "$(cat out)" = $'0 0 1 0 2 0 0\n1 0 1 1 2 1 1' ] || fail "a step without PMIx, GPU for each rank: $(cat out err)"
  LD_LIBRARY_PATH=$fake MN_FAKE_GPUS=2 step "$mnlaunch" sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 all\n1 cuda:1 all' ] || fail "a step without PMIx, two GPUs: $(cat out err)"
  # Instances of one GPU: CUDA shows a process one of them, so each rank gets its own.
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=1 MN_FAKE_MIG=1 mpiexec --oversubscribe -n 2 "$mnlaunch" sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 MIG-00000\n1 cuda:0 MIG-00001' ] || fail "instances of a GPU: $(cat out err)"
  # NCCL's plugin is looked up, and its code does not run here.
  status 0 env LD_LIBRARY_PATH="$fake:$fake/plugin" MN_FAKE_GPUS=1 MN_TEST_LOADED="$work/loaded" "$mnlaunch" true
  [ -e "$fake/plugin/libnccl-net.so" ] && [ ! -e loaded ] || fail 'code of libnccl-net.so ran in mnlaunch'
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=2 $run "$mnlaunch" sh -c "$tell"
  one_line 'warning \[devices\] .*2 ranks share GPUs with others; .*--oversubscribe-gpu'
  [ "$(sort out)" = $'0 cuda:0 GPU-abc0\n1 cuda:0 GPU-abc1\n2 cuda:0 GPU-abc0' ] || fail "shared GPUs: $(cat out err)"
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=2 $run "$mnlaunch" --oversubscribe-gpu sh -c "$torch"
  [ "$(sort out)" = $'0 0 1 0 3 0 GPU-abc0\n1 0 1 1 3 1 GPU-abc1\n2 0 1 2 3 2 GPU-abc0' ] ||
    fail "LOCAL_RANK of ranks that share GPUs: $(cat out err)"
  status 0 env LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=2 $run "$mnlaunch" --oversubscribe-gpu sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 GPU-abc0\n1 cuda:0 GPU-abc1\n2 cuda:0 GPU-abc0' ] && [ ! -s err ] ||
    fail "--oversubscribe-gpu: $(cat out err)"
  status 0 env CUDA_VISIBLE_DEVICES=2,1,0 LD_LIBRARY_PATH="$fake" MN_FAKE_GPUS=3 $run "$mnlaunch" sh -c "$tell"
  [ "$(sort out)" = $'0 cuda:0 2,1,0\n1 cuda:1 2,1,0\n2 cuda:2 2,1,0' ] || fail "visible devices: $(cat out err)"
  export CUDA_VISIBLE_DEVICES=
fi

# AMD's, of a sysfs of files, where NVML has no say.
if ! ldconfig -p | grep -q libnvidia-ml.so.1; then
  for card in 0 1; do
    device=amd/sys/class/drm/card$card/device
    mkdir -p $device/drm/renderD$card amd/dev/dri
    touch amd/dev/dri/renderD$card
    echo 0x1002 >$device/vendor
    echo "PCI_SLOT_NAME=0000:2$card:00.0" >$device/uevent
    echo 68702699520 >$device/mem_info_vram_total
    echo "000000000000001$card" >$device/unique_id
  done
  # shellcheck disable=SC2016
  tell='echo "$RANK $MN_DEVICE $LOCAL_RANK ${ROCR_VISIBLE_DEVICES-all} ${HIP_VISIBLE_DEVICES-all}"'
  amd() { status 0 env -u CUDA_VISIBLE_DEVICES MN_HARDWARE_ROOT="$work/amd" mpiexec --oversubscribe -n 2 "$mnlaunch" --check off "$@"; }
  amd sh -c "$tell"
  [ "$(sort out)" = $'0 cpu 0 all all\n1 cpu 1 all all' ] || fail "AMD GPUs: $(cat out err)"
  amd --gpu-visibility one sh -c "$tell"
  [ "$(sort out)" = $'0 cpu 0 GPU-0000000000000010 0\n1 cpu 0 GPU-0000000000000011 0' ] || fail "one AMD GPU: $(cat out err)"
  amd --show true
  [ "$(awk '$1 ~ /^[01]$/ {print $5, $6}' out)" = $'hip:0 0000:20:00.0\nhip:1 0000:21:00.0' ] || fail "AMD GPUs: $(cat out err)"
fi

# A rank whose variables are wrong says so itself, whatever it takes for its rank.
for wrong in SLURM_PROCID=abc SLURM_PROCID=-1 SLURM_PROCID=99999999999 SLURM_PROCID=2 'SLURM_PROCID=1 SLURM_LOCALID=' \
  'SLURM_PROCID=1 PMI_FD=abc'; do
  # shellcheck disable=SC2086
  status 2 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 $wrong "$mnlaunch" true
  one_line "^mnlaunch: rank .* on .*: "
done
status 2 env MN_LAUNCH_TIMEOUT=0 $run "$mnlaunch" true
one_line 'MN_LAUNCH_TIMEOUT: --timeout is "0": give seconds, at least 1'
# shellcheck disable=SC2016
status 0 env MNLAUNCH_OPTIONS='--ports 41000-41009' $run "$mnlaunch" sh -c 'echo $MASTER_PORT'
[ "$(sort -u out | grep -c '^4100[0-9]$')" = 1 ] && [ "$(sort -u out | wc -l)" = 1 ] || fail "--ports: $(cat out err)"
status 2 env TORCHELASTIC_RUN_ID=1 "$mnlaunch" true
one_line 'torchrun started this process'
# Ranks of a shell loop are never worlds of one each. What surrounds mnlaunch's own launcher does not matter.
status 2 env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "$mnlaunch" true
one_line '^mnlaunch: RANK is 1 and WORLD_SIZE 2, but no launcher started this process'
status 0 env RANK=0 WORLD_SIZE=1 "$mnlaunch" "$mnlaunch" true
status 2 env SLURM_JOB_ID=7 SLURM_NTASKS=8 "$mnlaunch" true
one_line '^mnlaunch: .*Slurm job 7 has 8 tasks, but neither srun nor mpiexec started this process'
status 0 env SLURM_JOB_ID=7 SLURM_NTASKS=1 "$mnlaunch" true
status 0 env SLURM_JOB_ID=7 SLURM_NTASKS=8 $run "$mnlaunch" true
status 0 env RANK=1 WORLD_SIZE=2 $run "$mnlaunch" "$mnlaunch" true
status 1 env PMIX_NAMESPACE=gone PMIX_RANK=1 PMIX_SERVER_URI2='gone.0;tcp4://127.0.0.1:9' "$mnlaunch" true
one_line 'rank 1 on .*; unset the PMIX_\* variables'

# Launchers that mnlaunch can't talk to tell the place in their variables. The ranks of a node find each other, however
# the nodes are filled; what nothing tells is not exported.
# shellcheck disable=SC2016
tell='echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE'
# pmi SIZE FIRST SECOND: these two ranks of SIZE have a node of their own; out and err have what they print.
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
status 2 env PMI_RANK=3 PMI_SIZE=4 "$mnlaunch" true
one_line 'PMI_[A-Z_]* is not set\|MPI_LOCAL[A-Z]* is not set'
status 2 env PMI_RANK=1 PMI_SIZE=2 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=3 PMI_JOBID=$$ "$mnlaunch" true
one_line 'PMI says rank 1 of 2, local rank 1 of 3, .*its variables were changed on the way'

# Jobs at once whose variables do not name them are told apart by what started their ranks.
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
[ ! -s err ] && [ "$(wc -l <out)" = 6 ] || fail "three jobs at once: $(cat out err)"
[ "$(cut -d' ' -f1,3 out | sort -u | wc -l)/$(cut -d' ' -f3 out | sort -u | wc -l)" = 3/3 ] || fail "three jobs in one: $(cat out)"
# What calls itself the first rank of a node that has one says so at once.
for n in 0 0; do
  env PMI_RANK=$n PMI_SIZE=2 PMI_LOCAL_RANK=$n PMI_LOCAL_SIZE=2 PMI_JOBID=$$ MN_LAUNCH_TIMEOUT=3 "$mnlaunch" true &
done 2>err
wait
grep -q 'another process is the first rank of this node already; start each rank once' err || fail "two first ranks: $(cat err)"

step "$mnlaunch" sh -c "$tell"
[ "$(cat out)" = $'0 2 0 2 0 1\n1 2 1 2 0 1' ] && [ ! -s err ] || fail "a step without PMIx: $(cat out err)"

# Flux: a PMI server that knows the nodes, and no variables about them.
status 0 "$MN_SOURCE_DIR/tests/support/start_ranks" flux here,here "$mnlaunch" sh -c "$tell"
[ "$(sort out)" = $'0 2 0 2 0 1\n1 2 1 2 0 1' ] || fail "Flux: $(cat out err)"
# What Flux says of rank 1 cannot be true of a job of one.
status 2 "$MN_SOURCE_DIR/tests/support/start_ranks" flux here env FLUX_TASK_RANK=1 PMI_RANK=1 "$mnlaunch" true
one_line '^mnlaunch: rank 1 on '

# A second mnlaunch in one job does not take the facts of the first for its own.
status 0 $run sh -c '"$0" true; exec "$0" --show echo second' "$mnlaunch"
[ "$(grep -c second out)" = 3 ] && [ ! -s err ] || fail "a second mnlaunch: $(cat out err)"

# A rank that never comes is named.
status 78 env MN_LAUNCH_TIMEOUT=2 $run sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 20; exec '"$mnlaunch"' true'
one_line 'rank 1 of 3 did not arrive in 2 s'

# The rank that speaks may be the last to give up: here rank 0 comes late.
status 78 env MN_LAUNCH_TIMEOUT=2 $run sh -c 'case $OMPI_COMM_WORLD_RANK in 2) exec sleep 30 ;; 0) sleep 1.5 ;; esac; exec '"$mnlaunch"' true'
one_line 'rank 2 of 3 did not arrive in 2 s'

# A PMIx server that hangs is named, and nothing hangs with it.
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

# MPI_Init of the program is not lost by a server that notes late that mnlaunch has finalized PMIx.
status 0 env LD_PRELOAD="$MN_BUILD_DIR/tests/libmn_late_server.so" mpiexec --oversubscribe -n 3 \
  env -u LD_PRELOAD -u OMPI_COMM_WORLD_LOCAL_SIZE "$mnlaunch" "$MN_BUILD_DIR/mnlaunch-selftest"

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
