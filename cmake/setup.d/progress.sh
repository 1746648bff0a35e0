# Messages of cmake/setup and the progress of long steps: on a terminal one line, overwritten; in a log file a line now
# and then.

erase='' show_every=15
if [ -t 2 ]; then erase=$'\r\e[K' show_every=1; fi
background=()  # processes to end with this one

say() { echo "${erase}setup: $*" >&2; }
die() { say "$*"; exit 1; }

end_background() {
  [ ${#background[@]} -eq 0 ] || kill "${background[@]}" 2>/dev/null || true
  background=()
}
trap end_background EXIT

# Prints the texts of the functions PART… at intervals, until killed.
show_progress() {
  local part words line last='' never
  exec {never}<> <(:)
  trap 'printf %s "$erase" >&2; exit' TERM
  while read -rt "$show_every" -u "$never" || true; do  # a sleep process could outlive this one
    line=''
    for part in "$@"; do
      words=$("$part")
      [ -z "$words" ] || line+="${line:+; }$words"
    done
    [ -n "$line" ] && [ "$line" != "$last" ] || continue
    last=$line
    if [ -n "$erase" ]; then printf '%s%.*s' "$erase" "${COLUMNS:-80}" "setup: $line" >&2; else say "$line"; fi
  done
}

# Progress of apt-get's last call, from the log.
packages_progress() {
  awk '/ newly installed, / { all = $1 + $3; got = unpacked = ready = 0 }
    /^Get:/ { ++got } /^Unpacking / { ++unpacked } /^Setting up / { ++ready }
    END { if (!all || ready >= all) exit
          if (ready) printf "packages: %d of %d set up", ready, all
          else if (unpacked) printf "packages: %d of %d unpacked", unpacked, all
          else printf "packages: %d of %d downloaded", got, all }' "$log"
}

megabytes() { local all; all=$(du -sm "$1" 2>/dev/null) && echo "${all%%[!0-9]*}" || echo 0; }

torch_progress() {
  if grep -q '^Successfully installed' "$torch_log" 2>/dev/null; then
    return
  elif grep -q '^Installing collected' "$torch_log" 2>/dev/null; then
    echo "libtorch: $(megabytes "$torch_env/lib") of $torch_disk MB unpacked"
  elif [ -d "$torch_env/tmp" ]; then
    echo "libtorch: $(megabytes "$torch_env/tmp") of $torch_download MB downloaded"
  fi
}
