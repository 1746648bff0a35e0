# System packages: finds the missing rows of requirements.txt, and installs them by apt-get, or lists them without root
# or apt-get.

# Folders searched for headers, beyond a package manager's.
header_dirs() {
  local name
  printf '%s\n' /usr/include /usr/local/include /usr/include/hdf5/* /usr/lib/*/pmix*/include
  tr ':;' '\n\n' <<<"${CPATH:-}:${CPLUS_INCLUDE_PATH:-}:${C_INCLUDE_PATH:-}:${CMAKE_INCLUDE_PATH:-}"
  tr ':;' '\n\n' <<<"${CMAKE_PREFIX_PATH:-}:${CONDA_PREFIX:-}" | sed 's|$|/include|'
  for name in $(compgen -e); do
    case $name in *_ROOT | *_HOME | *_DIR) printf '%s/include\n' "${!name}" ;; esac
  done
}

# The first Python that can make the environment; empty if none can.
find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

probe() {  # probe command:NAME|header:PATH|python
  local dir
  case $1 in
    command:*) command -v "${1#*:}" >/dev/null || [ -x "/usr/sbin/${1#*:}" ] ;;
    header:*)
      while read -r dir; do [ ! -e "$dir/${1#*:}" ] || return 0; done <<<"$include_dirs"
      return 1 ;;
    python) find_python >/dev/null ;;
  esac
}

# Fills `missing` with the missing rows of requirements.txt in the wanted groups.
find_missing() {
  local group what probe packages conda spack installed='' package names complete include_dirs
  missing=()
  if command -v dpkg-query >/dev/null; then
    installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p' | tr '\n' ' ')"
  fi
  include_dirs=$(header_dirs)
  while IFS='|' read -r group what probe packages conda spack; do
    group=${group// /}
    case " ${groups[*]} " in *" $group "*) ;; *) continue ;; esac
    ! grep -qsxF -- "$what" "$unavailable" || continue
    complete=${installed:+yes}
    read -ra names <<<"$packages"
    for package in "${names[@]}"; do
      case $installed in *" $package "*) ;; *) complete='' ;; esac
    done
    if [ -z "$complete" ] && ! probe ${probe// /}; then
      missing+=("$group|$what|$packages|$conda|$spack")
    fi
  done < <(grep -v '^#' "$root/cmake/requirements.txt")
}

# The packages of the row with this probe.
packages_of() { words "$(grep -v '^#' "$root/cmake/requirements.txt" | awk -F'|' -v probe="$1" '$3 ~ "^ *" probe " *$" { print $4 }')"; }

words() { local all; read -rd '' -a all <<<"$1" || true; echo "${all[*]}"; }

# One column of the missing rows that the build requires.
column() { words "$(printf '%s\n' "${missing[@]}" | sed -nE '/^(base|tests)/p' | cut -d'|' -f"$1")"; }

rows_not_required() { printf '%s\n' "${missing[@]}" | sed -E '/^(base|tests)/d'; }

list_missing() {
  local row group what packages rest required
  required=$(column 3)
  [ -n "$required" ] || [ ! -e "$build_dir/CMakeCache.txt" ] || return 0  # name the optional ones once
  say "this machine lacks (and there is $1 to install it; Debian's names in brackets)"
  for row in "${missing[@]}"; do
    IFS='|' read -r group what packages rest <<<"$row"
    case $group in base | tests) group='' ;; *) group=', optional' ;; esac
    echo "  $(words "$what") [$(words "$packages")]$group" >&2
  done
  [ -n "$required" ] || return 0
  cat >&2 <<HELP
How to get what is not optional, any of:
  an administrator  apt-get install $required
  modules           module load gcc cmake openmpi hdf5 boost hwloc   (module avail NAME: how they are called here)
  conda             conda create -n mn -c conda-forge $(column 4) && conda activate mn
  spack             spack install $(column 5), then spack load them
Then run the same command again. Headers are found through CPATH, CMAKE_PREFIX_PATH, CONDA_PREFIX and NAME_ROOT.
HELP
  exit 1
}

# Sets `apt`, the command for apt-get as root. Without such a command, lists the missing packages; ends the set-up
# unless all of them are optional.
find_apt() {
  local as_root=() settings=() name
  if ! command -v apt-get >/dev/null; then
    list_missing "no apt-get"; return 1
  elif [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
      as_root=(sudo)
    else
      list_missing "no root or sudo"; return 1
    fi
  fi
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do  # sudo would drop them
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
  done
  apt=(${as_root[@]+"${as_root[@]}"} env LC_ALL=C DEBIAN_FRONTEND=noninteractive ${settings[@]+"${settings[@]}"}
    apt-get -q -y -o DPkg::Lock::Timeout=300)
}

apt_install() {
  local names
  read -ra names <<<"$1"
  "${apt[@]}" install --no-install-recommends "${names[@]}" >>"$log" 2>&1 </dev/null
}

install_required() {
  apt_install "$1" || die "apt-get could not install $1; is the network there? Its words are in $log"
}

# Installs all packages at once, which is fastest. If that fails, installs optional packages one by one, and records the
# unavailable ones.
install_packages() {
  local row group what packages required optional
  required=$(column 3)
  optional=$(words "$(rows_not_required | cut -d'|' -f3)")
  say "installing $required $optional and what they need (apt-get)"
  ! apt_install "$required $optional" || return 0
  [ -z "$required" ] || install_required "$required"
  while IFS='|' read -r group what packages _; do
    apt_install "$(words "$packages")" || {
      echo "$what" >>"$unavailable"
      say "going on without $(words "$what"): apt-get's words are in $log (not tried again until $unavailable is removed)"
    }
  done < <(rows_not_required)
}
