# What run and explore share: sourced, with $targets set to the targets that are wanted (none: all).
# CLANGXX names the compiler. Ends with 77 where there is no clang with libFuzzer.
fuzz=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${MN_BUILD_DIR:-$fuzz/../../build}/fuzz
found=$work/found

if ((${#targets[@]} == 0)); then
  for file in "$fuzz"/fuzz_*.cpp; do
    target=${file##*/fuzz_}
    targets+=("${target%.cpp}")
  done
fi

find_clang() {
  local name
  for name in "${CLANGXX:-clang++}" clang++-{20,19,18,17,16,15,14}; do
    if command -v "$name" >/dev/null &&
      echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
      "$name" -x c++ -fsanitize=fuzzer - -o /dev/null 2>/dev/null; then
      echo "$name"
      return
    fi
  done
}

build_targets() {
  local clang log=$work/build.log
  clang=$(find_clang)
  if [[ -z $clang ]]; then
    echo "no clang with libFuzzer was found: install clang and libclang-rt-*-dev, or set CLANGXX" >&2
    exit 77
  fi
  mkdir -p "$work" "$found"
  if ! { cmake -S "$fuzz" -B "$work" -G Ninja -DCMAKE_CXX_COMPILER="$clang" &&
    ninja -C "$work" -j "${MN_BUILD_JOBS:-$(env -u OMP_NUM_THREADS nproc)}" "${targets[@]/#/fuzz_}"; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "the fuzz targets can't be built; the whole of it is in $log" >&2
    exit 1
  fi
}

# inputs FOLDER TARGET: the kept files, always in one order.
inputs() { find "$fuzz/$1/$2" -type f 2>/dev/null | LC_ALL=C sort; }

# check TARGET COMMAND…: prints what a report says, and names the input that failed.
check() {
  local target=$1 log=$work/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    grep -E "ERROR|SUMMARY|Test unit|runtime error" "$log" || tail -n 5 "$log"
    echo "FAILED: $target; the report is in $log. Once mended, keep the input in tests/fuzz/regressions/$target" >&2
    return 1
  fi
}
