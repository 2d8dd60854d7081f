# Bash completion for pgwaked. It asks `pgwaked --help`, so it knows the commands and options of the version installed.

_pgwaked_words() { # _pgwaked_words COMMAND...: its subcommands and options
  "${COMP_WORDS[0]}" "$@" --help 2>/dev/null | sed -nE \
    -e '/^Subcommands:/,/^$/s/^  ([a-z][a-z-]*) .*/\1/p' \
    -e 's/^  (-[a-z],)?(--[a-z][a-z-]*).*/\2/p'
}

_pgwaked() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=() i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      run | status | doctor | control | listen | config) [[ ${command[*]} ]] || command=("${COMP_WORDS[i]}") ;;
      evict | log-level | reconnect | drain) [[ ${command[*]} == control ]] && command+=("${COMP_WORDS[i]}") ;;
    esac
  done
  COMPREPLY=()
  case $before:$word in
    *:-*) ;;
    --config:* | --database-file:* | --socket:* | --bundle:*)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --log-level:* | log-level:*)
      mapfile -t COMPREPLY < <(compgen -W "trace debug info warning error" -- "$word")
      return
      ;;
    --log-format:*)
      mapfile -t COMPREPLY < <(compgen -W "text json" -- "$word")
      return
      ;;
    --policy:*)
      mapfile -t COMPREPLY < <(compgen -W "listener poll none direct" -- "$word")
      return
      ;;
    --reattach:*)
      mapfile -t COMPREPLY < <(compgen -W "auto never" -- "$word")
      return
      ;;
    --socket-group:*)
      mapfile -t COMPREPLY < <(compgen -g -- "$word")
      return
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$(_pgwaked_words "${command[@]}")" -- "$word")
}

complete -o filenames -o bashdefault -F _pgwaked pgwaked
