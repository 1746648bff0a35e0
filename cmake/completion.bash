# Completion of NAME for bash; written by mn's cmake/install_completions.
_mn_complete_NAME() {
  # The kind of each option's value: choices, files, folders, any, or none. A = in front: only behind --option=.
  local -A values=(
    VALUES
  )
  local -A commands=(
    COMMANDS
  )
  local options='OPTIONS' is_launcher=IS_LAUNCHER
  local current=${COMP_WORDS[COMP_CWORD]} option='' awaited='' command='' word kind i
  # readline splits --option=value into three words.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [ "$word" = = ]; then
      awaited=$option
    elif [ -n "$awaited" ]; then
      awaited='' option=''
    elif [[ $word == --?* ]]; then
      option=$word
      [[ -z ${values[$word]-} || ${values[$word]} == =* ]] || awaited=$word
    elif [ -n "$word" ] && [ -z "$command" ] && [ -n "${commands[$word]-}" ]; then
      command=$word
    elif [ $is_launcher = yes ] && [ -z "$command" ]; then
      [ "$word" != -- ] || ((++i))
      _mn_complete_program_of_NAME $i
      return
    fi
  done
  if [ "$current" = = ]; then current='' awaited=$option; fi

  if [ -n "$awaited" ]; then
    kind=${values[$awaited]#=}
    case $kind in
      any | '') ;;
      files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
      folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
      *) mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$current") ;;
    esac
  elif [[ $current == -* ]]; then
    [ -z "$command" ] || options=${commands[$command]}
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    mapfile -t COMPREPLY < <(
      [ -n "$command" ] || compgen -W "${!commands[*]}" -- "$current"
      [ $is_launcher = no ] || [[ $current == */* ]] ||
        compgen -c -- "$current" | while read -r name; do type -P -- "$name" >/dev/null && echo "$name"; done
      [ $is_launcher = no ] && [ -z "$command" ] && [ ${#commands[@]} -gt 0 ] || compgen -f -- "$current"
    )
    compopt -o filenames
  fi
}

# The word at $1 is a program: bash-completion completes its arguments, without it they are files.
_mn_complete_program_of_NAME() {
  if [ "$1" -lt "$COMP_CWORD" ] && declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif [ "$1" -lt "$COMP_CWORD" ] && declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  else
    mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    compopt -o filenames
  fi
}
complete -F _mn_complete_NAME NAME
