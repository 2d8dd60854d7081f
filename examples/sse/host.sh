# What the run scripts of examples/sse-* do; sourced by them, after scripts/lib.sh.
# shellcheck shell=bash

show_usage() {
  cat <<END
usage: examples/sse-$1/run [--stay]

Installs what is missing from Debian, builds, starts a PostgreSQL and a hub of its own and $2 with four workers, and
shows two streams: durable and ephemeral messages, the hub killed and back, a restart. Removes all of it at the end.
--stay: goes on until Ctrl-C, and says where a browser finds the page.
END
}

sql() { "$psql" -XAtqc "$1" "$cluster_conninfo"; }
stop_process() {
  kill "-${2:-TERM}" "$1" 2>/dev/null || return 0
  wait "$1" 2>/dev/null || true
}

# eventually TITLE COMMAND...: until it succeeds; fails after 30 s.
eventually() {
  local title=$1 deadline=$((SECONDS + 30))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS > deadline)); then
      tail -n 20 "$run_dir"/*.log >&2
      fail "not within 30 s: $title"
    fi
    sleep 0.05
  done
}

start_hub() {
  "$PGWAKED" run --socket "$PGWAKE_SOCKET" --database "$cluster_conninfo" </dev/null 2>>"$run_dir/hub.log" &
  hub=$!
  at_exit "stop_process $hub"
  eventually "the hub is healthy" "$PGWAKED" status --socket "$PGWAKE_SOCKET"
}

# prepare PACKAGES: packages, programs, PostgreSQL with the schema, a hub, and a free port.
prepare() {
  local given=${PGWAKED:-} library=${LIBPGWAKE:-}  # what is built already
  clear_environment PG
  need_packages "$1"
  if [[ $given && $library ]]; then
    export PGWAKED=$given
  else
    build release "$root/build/release" "${2:-pgwaked pgwake}" || exit 1
    export PGWAKED=$root/build/release/bin/pgwaked LIBPGWAKE=$root/build/release/lib/libpgwake.so.1
  fi
  start_cluster || exit 1
  psql=$(postgres_bin)/psql
  run_dir=$(mktemp -d /tmp/pgwake-sse.XXXXXX)
  at_exit "rm -rf -- $(printf %q "$run_dir")"
  export PGWAKE_SOCKET=$run_dir/pgwake.sock PGWAKE_DATABASE=$cluster_conninfo DATABASE=$cluster_conninfo
  export PGWAKE_FALLBACK_APPLICATION_NAME='a worker listens itself'
  "$psql" -Xq -v ON_ERROR_STOP=1 -f "$root/examples/sse/schema.sql" "$cluster_conninfo"
  start_hub
  port=$(/usr/bin/python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
  url=http://127.0.0.1:$port
}

# start_server COMMAND...: in the background, until it answers.
start_server() {
  "$@" </dev/null >>"$run_dir/server.log" 2>&1 &
  server=$!
  at_exit "stop_process $server"
  eventually "the server answers" curl -sf "$url/"
}

# open_stream NAME: what comes is in the file NAME.
open_stream() {
  curl -sN "$url/events?stream=news" </dev/null >"$run_dir/$1" 2>/dev/null &
  at_exit "stop_process $!"
  eventually "the stream of $1 begins" grep -q '^event: start' "$run_dir/$1"
}

# come_back NAME ID TEXT: as a browser, which comes again where a worker that stops had it.
come_back() {
  curl -sN --max-time 2 "$url/events?stream=news&last_event_id=$2" </dev/null >"$run_dir/$1" 2>/dev/null || true
  has "$1" "$3"
}

has() { grep -qF "$2" "$run_dir/$1"; }
durable() { curl -sf --data-binary "$1" "$url/durable?stream=news"; }
ephemeral() { curl -sf --data-binary "$1" "$url/ephemeral?stream=news"; }
listening() { [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^(pgwaked|a worker listens)'") == "$1" ]]; }

# play RESTART: the story; RESTART is a function that restarts the server.
play() {
  say "two browsers; one message that stays, and one for those who are there"
  open_stream one
  open_stream two
  durable 'a row'
  ephemeral 'a word'
  for browser in one two; do
    eventually "$browser has both" eval "has $browser '\"a row\"' && has $browser '\"a word\"'"
  done
  sed 's/^/         /' "$run_dir/one"
  eventually "one session listens" listening 1
  say "the hub is killed; workers listen themselves, and rows go on"
  stop_process "$hub" KILL
  durable 'without a hub'
  for browser in one two; do eventually "$browser has the row" has "$browser" '"without a hub"'; done
  say "the hub is back"
  start_hub
  eventually "one session listens" listening 1
  say "the server restarts: browsers are told, and come back with the number of the last row that they have"
  "$1"
  for browser in one two; do eventually "$browser is told" has "$browser" 'event: shutdown'; done
  eventually "a row is added" durable 'while nobody looked'
  eventually "the row is there" come_back three 2 '"while nobody looked"'
  sed 's/^/         /' "$run_dir/three"
  say "sessions of PostgreSQL"
  "$psql" -Xc "SELECT regexp_replace(application_name, '^pgwaked.*', 'the hub, which listens') AS name, count(*)
    FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() GROUP BY 1 ORDER BY 1" "$cluster_conninfo"
}

# stay: for those who want to look.
stay() {
  say "$url/?stream=news until Ctrl-C"
  wait "$server"
}
