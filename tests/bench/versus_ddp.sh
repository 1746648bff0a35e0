# What the comparisons with Python's DistributedDataParallel share. After it is sourced, `versus_ddp` needs: job (a program
# of build/jobs), script (the same in Python, beside this file), optimizer (of both), options (of both), ours (of the job).
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
build=${MN_BUILD_DIR:-$root/build}
python=${PYTHON:-$build/torch-env/bin/python}
"$python" -c 'import torch, numpy' 2>/dev/null || { echo "$python lacks torch or numpy: cmake/setup --python" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

mn() {  # mn RANKS [NAME]: samples/s from OUT/log, without its first entry
  local out=$work/${2:-mn}
  timeout 600 mpiexec --bind-to none --oversubscribe -n "$1" "$build/jobs/$job" --device cpu --checkpoint-every none \
    "${options[@]}" "${ours[@]}" --out "$out" >"$out.output" 2>&1 || { cat "$out.output" >&2; exit 1; }
  "$python" - "$out/log" <<'PY'
import json, sys
rates = [entry["images_per_second"] for entry in json.load(open(sys.argv[1]))][1:]
print(round(len(rates) / sum(1 / rate for rate in rates)))
PY
}

twice() {  # two runs of 1 rank at the same time: the sum of their samples/s
  local here
  mn 1 beside >"$work/beside.rate" &
  here=$(mn 1)
  wait $!
  echo $((here + $(<"$work/beside.rate")))
}

ddp() {  # ddp [--fused]: 2 ranks
  local port=$((20000 + RANDOM % 20000)) rank pids=()
  trap 'kill "${pids[@]}"; exit 143' TERM INT  # `timeout` leads a process group of its own: no signal to ours reaches it
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port GLOO_SOCKET_IFNAME=lo timeout 600 "$python" \
      "$root/tests/bench/$script" "${options[@]}" "$@" 2>"$work/ddp.$rank" &
    pids+=($!)
  done
  for rank in 0 1; do wait "${pids[$rank]}" || { cat "$work/ddp.$rank" >&2; exit 1; }; done
}

# versus_ddp ROUNDS UNIT: all of them in turns, each second round in the other direction; prints the median of the rounds,
# and of their ratios with the range.
versus_ddp() {
  local round ways=("one mn 1" "two mn 2" "twice twice" "ddp ddp" "fused ddp --fused") order way name
  for ((round = 0; round < $1; ++round)); do
    order=(0 1 2 3 4)
    ((round % 2 == 0)) || order=(4 3 2 1 0)
    for way in "${order[@]}"; do
      name=${ways[way]%% *}
      ${ways[way]#* } >>"$work/$name"
    done
  done
  median() { sort -n | sed -n "$(((round + 1) / 2))p"; }
  rate() { printf '%-40s %8.0f\n' "$2" "$(median <"$work/$1")"; }
  ratio() {
    paste "$work/$1" "$work/$2" | awk '{printf "%.2f\n", $1 / $2}' >"$work/ratios"
    printf '%-40s %8s (%s to %s)\n' "$3" "$(median <"$work/ratios")" "$(sort -n "$work/ratios" | head -1)" \
      "$(sort -n "$work/ratios" | tail -1)"
  }
  printf '%-40s %8s\n' "$2 of training" ''
  rate one 'mn, 1 rank'
  rate two 'mn, 2 ranks'
  rate twice 'mn, 1 rank twice at the same time'
  rate ddp "DDP (gloo), 2 ranks, $optimizer"
  rate fused "DDP (gloo), 2 ranks, $optimizer(fused=True)"
  ratio two one 'mn, 2 ranks : 1 rank'
  ratio twice one 'mn, 1 rank twice : 1 rank'
  ratio two ddp "mn : DDP, 2 ranks, $optimizer"
  ratio two fused "mn : DDP, 2 ranks, $optimizer(fused=True)"
}
