#!/usr/bin/env bash
# mnlaunch as users meet it on one machine.
# usage: start.sh CASE
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMP_NUM_THREADS

case ${1:-} in
  silent-and-unlinked)  # mnlaunch prints nothing if all is well, and links neither MPI nor CUDA
    ! ldd "$mnlaunch" | grep -Ei 'libmpi|libpmix|torch|cuda|nccl|nvidia' || fail 'mnlaunch links what it must not'

    status 0 "$mnlaunch" --version
    [[ $(cat out) =~ ^mnlaunch\ [0-9.]+,\ built\ with\ (Open\ MPI|MPICH|Intel\ MPI|MVAPICH2)\ [0-9.]+ ]] || fail "--version: $(cat out)"

    status 0 "$mnlaunch" true
    [ ! -s out ] && [ ! -s err ] || fail "not silent: $(cat out err)"
    status 0 $run "$mnlaunch" true
    [ ! -s out ] && [ ! -s err ] || fail "not silent under mpiexec: $(cat out err)"
    ;;
  exports)  # the variables of the program, and what of the user stays
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
    ;;
  exit-statuses)  # of the program, of wrong options, and of programs that cannot be found or run
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
    status 126 "$mnlaunch" /dev/null
    one_line '/dev/null is not a regular file; name a program'
    # unrunnable TEXT PATTERN: an executable file of that text; the line that comes of it
    unrunnable() {
      printf "$1" >script
      chmod +x script
      status 126 "$mnlaunch" ./script
      one_line "cannot run .*/script: $2"
    }
    unrunnable '#!/no/such/interpreter\n' 'the interpreter of its first line, #!/no/such/interpreter, is not on this node; '
    unrunnable '#!/bin/sh\r\necho\r\n' 'its lines end as on Windows; convert it'
    unrunnable '#!/usr/bin/env sh\r\necho\r\n' 'its lines end as on Windows; convert it'
    unrunnable '#!/usr/bin/env no-such-program\n' 'the interpreter of its first line, .* is not on this node; '
    unrunnable '#!/usr/bin/env sh -e\n' 'the interpreter of its first line, .* is not on this node; '
    printf '#!/usr/bin/env -S LEVEL=2 sh -e\nexit $((LEVEL + 1))\n' >script
    status 3 "$mnlaunch" ./script
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
    ;;
  scripts-that-cannot-run)  # are reported once for all ranks, not by the interpreter of each rank
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    together 126 "$mnlaunch" ./script
    one_line '^mnlaunch: cannot run .*/script: the interpreter of its first line'
    together 126 "$mnlaunch" --check off ./script
    one_line '^mnlaunch: rank 0 on .*: cannot run .*/script: the interpreter of its first line'
    # A script that is nowhere is missed once, not by each rank's interpreter.
    for words in 'sh no-such.sh' 'python3 -u no-such.py 1'; do
      # shellcheck disable=SC2086
      together 127 "$mnlaunch" $words
      one_line '^mnlaunch: script "no-such\.[a-z]*" was not found in '
    done
    status 0 "$mnlaunch" sh -c 'true no-such.sh'
    # Where bash itself looks in PATH too, and where there is no folder any more.
    mkdir bin
    echo 'echo of PATH' >bin/in-path.sh
    status 0 env PATH="$work/bin:$PATH" "$mnlaunch" bash in-path.sh
    [ "$(cat out)" = 'of PATH' ] || fail "a script of PATH: $(cat out err)"
    for words in ./x 'sh x.sh'; do
      # shellcheck disable=SC2016,SC2086
      status 127 sh -c 'mkdir gone; cd gone; rmdir ../gone; exec "$0" "$@"' "$mnlaunch" $words
      one_line ' was not found in .*/gone (deleted)'
    done
    : >rank-1
    mkdir -p rank-0 rank-2
    # shellcheck disable=SC2016
    together 2 sh -c 'exec "$0" --output "rank-$N/logs" true' "$mnlaunch"
    one_line '^mnlaunch: rank 1 on .*: --output: cannot make rank-1/logs'
    rm -r rank-?
    ;;
  descriptors)  # the program gets the open files of its launcher, closed streams stay closed
    # Nothing is open in the program that its launcher did not open, but for connections by which mn::Job notices ranks that
    # die: three ranks have four ends.
    $run sh -c 'ls -l /proc/self/fd | sed "s/.* -> //; s/[0-9][0-9]*//g" | sort' | sort >bare.fds
    $run "$mnlaunch" sh -c 'ls -l /proc/self/fd | sed "s/.* -> //; s/[0-9][0-9]*//g" | sort' | sort >through.fds
    [ "$(diff bare.fds through.fds | grep '^[<>]' | sort | uniq -c | tr -s ' ')" = ' 4 > socket:[]' ] ||
      fail "left open: $(diff bare.fds through.fds)"
    # Nor is anything closed, or opened where its launcher had closed it.
    # shellcheck disable=SC2016
    status 0 $run sh -c 'exec "$0" "$@" <&- >&- 2>&-' "$mnlaunch" --show \
      sh -c 'exec >"closed.$RANK"; for n in 0 1 2; do [ ! -e /proc/self/fd/$n ] || echo $n; done'
    [ "$(cat closed.0 closed.1 closed.2)" = $'1\n1\n1' ] || fail "without standard streams: $(cat closed.*)"
    # shellcheck disable=SC2016
    [ "$($run "$mnlaunch" sh -c 'echo "${PMIX_MCA_gds-}"' | sort -u)" = '' ] || fail 'PMIX_MCA_gds is set'
    status 2 "$mnlaunch" --output '' true
    one_line '--output is empty'
    ;;
  skipped-checks)  # checks by option and by variable; unknown checks and options
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
    ;;
  cores-and-memory)  # --cpu-map, --bind-threads and --mem-bind
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
    # The checks judge the map, not what the launcher gave.
    read -r first second _ < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
    if [ -n "$second" ]; then
      pair="mpiexec --oversubscribe --bind-to none -n 2 taskset -c $first"
      status 0 $pair "$mnlaunch" --cpu-map "$first:$second" grep Cpus_allowed_list /proc/self/status
      [ "$(sed 's/.*\t//' out | sort)" = "$first"$'\n'"$second" ] && [ ! -s err ] || fail "--cpu-map beyond the mask: $(cat out err)"
      status 78 $pair "$mnlaunch" --cpu-map "$first:$first" true
      one_line 'error \[affinity\] .*: several ranks are bound to one and the same CPU'
    fi
    status 0 "$mnlaunch" --bind-threads sh -c 'echo $OMP_PLACES $OMP_PROC_BIND'
    [ "$(cat out)" = 'cores close' ] || fail "--bind-threads: $(cat out)"
    if grep -q '^Mems_allowed_list' /proc/self/status && [ -e /sys/devices/system/node/node0 ]; then
      status 0 "$mnlaunch" --mem-bind local sh -c 'grep -c bind: /proc/self/numa_maps || [ ! -e /proc/self/numa_maps ]'
    fi
    ;;
  network-cards)  # the nearest card of a recorded machine whose ports are made up
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
    ;;
  unwritable-output)  # a report that cannot be written is one line, and a program starts all the same; --json
    # What cannot be written is told once; a program is started all the same.
    # unwritten STATUS OPTIONS…
    unwritten() {
      # shellcheck disable=SC2016
      status "$1" sh -c 'exec "$0" "$@" >/dev/full' "$mnlaunch" "${@:2}"
      one_line 'cannot write standard output: No space left on device'
    }
    for words in --help --version 'supervise --help' --dry-run '--dry-run --json'; do
      # shellcheck disable=SC2086
      unwritten 1 $words
    done
    unwritten 0 --show true
    # shellcheck disable=SC2016
    status 1 sh -c 'exec "$0" --dry-run >&-' "$mnlaunch"
    one_line 'cannot write standard output: Bad file descriptor'
    # shellcheck disable=SC2016
    together 1 sh -c 'exec "$0" --dry-run >/dev/full' "$mnlaunch"
    one_line '^mnlaunch: rank 0 on .*: cannot write standard output'
    status 0 $run "$mnlaunch" --dry-run --json sh -c 'echo started'
    python3 -c 'import json,sys; d=json.load(open("out")); assert [r["rank"] for r in d["placement"]] == [0,1,2], d' ||
      fail "--json: $(cat out)"
    ;;
  nvidia-gpus)  # GPUs of a driver library that pretends: one for each rank, unless --oversubscribe-gpu shares them
    fake=$MN_BUILD_DIR/tests/fake
    [ -e "$fake/libnvidia-ml.so.1" ] || { echo "there is no $fake/libnvidia-ml.so.1"; exit 77; }
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
    ;;
  amd-gpus)  # GPUs of a sysfs made of files; without libnvidia-ml only
    ! ldconfig -p | grep -q libnvidia-ml.so.1 || { echo 'NVML is here, and speaks for all GPUs'; exit 77; }
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
    ;;
  *) fail "there is no case ${1:-}" ;;
esac
