# Shared by the scripts beside it; sourced, never run. Needs bash and what a bare Debian 12 has.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
jobs=$(nproc)
started=$SECONDS
export LC_ALL=C.UTF-8
# Objects compiled in one checkout serve another.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

cleanups=()
# Runs the commands given to at_exit, last one first, however the script ends.
run_cleanups() {
  local status=$? i
  trap - EXIT
  trap '' INT TERM HUP
  for ((i = ${#cleanups[@]} - 1; i >= 0; i--)); do eval "${cleanups[i]}" || true; done
  exit "$status"
}
at_exit() { cleanups+=("$1"); }
trap run_cleanups EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Variables that steer libpq, or a hub of this host, must not steer what is made here.
# clear_environment PREFIX: PG for both, PGWAKE_ for pgwake's alone.
clear_environment() {
  local name
  for name in $(compgen -e "$1"); do
    case $name in
      PGWAKE_TEST_* | PGWAKE_FUZZ_* | PGWAKE_MUTANT_*) ;;
      *) unset "$name" ;;
    esac
  done
}

# fresh_log FILE: empty it, so that nobody reads what an earlier run has said.
fresh_log() {
  mkdir -p "${1%/*}" 2>/dev/null && rm -f "$1" 2>/dev/null && : 2>/dev/null >"$1" ||
    fail "cannot write ${1#"$root"/}" "Does another user own ${root}/build? Remove it, or run this as that user."
}

clock() {
  local s=$((SECONDS - started))
  printf '%d:%02d' $((s / 60)) $((s % 60))
}
say() { printf '[%6s] %s\n' "$(clock)" "$*"; }
fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  shift
  if (($#)); then printf '  %s\n' "$@" >&2; fi
  exit 1
}

# step TITLE LOG COMMAND...: one line when it starts, one when it ends; the log's end only if it failed.
step() {
  local title=$1 log=$2 from=$SECONDS status=0
  shift 2
  say "$title ..."
  fresh_log "$log"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status)); then
    say "$title: FAILED after $((SECONDS - from)) s; the end of ${log#"$root"/}:"
    tail -n "${STEP_TAIL:-40}" "$log" | sed 's/^/    /'
    return "$status"
  fi
  say "$title: done in $((SECONDS - from)) s"
}

# --- packages -------------------------------------------------------------------------------------------------

# Picked by name in need_packages.
# shellcheck disable=SC2034
{
  packages_build=(g++ cmake ninja-build ccache pkg-config libboost1.81-dev libpq-dev rapidjson-dev libcli11-dev
    catch2)
  packages_demo=("${packages_build[@]}" postgresql)
  packages_test=("${packages_demo[@]}" clang-14 llvm-14 libclang-rt-14-dev pgbouncer openssl groff-base
    dpkg-dev python3 python3-trio python3-setuptools python3-wheel
    ruby ruby-minitest ruby-pg python3-psycopg python3-psycopg2 python3-asyncpg
    nodejs libnode-dev node-pg)
  packages_jobs=("${packages_demo[@]}" python3 python3-psycopg)
  packages_sse_puma=("${packages_demo[@]}" python3 curl puma ruby ruby-pg)
  packages_sse_gunicorn=("${packages_demo[@]}" python3 python3-psycopg curl gunicorn uvicorn)
  packages_sse_node=("${packages_demo[@]}" python3 curl nodejs libnode-dev node-pg)
  packages_bench=("${packages_demo[@]}" redis-server nats-server valgrind)
  packages_bench_bindings=("${packages_demo[@]}" python3 python3-psycopg python3-psycopg2 python3-asyncpg ruby ruby-pg
    nodejs libnode-dev node-pg)
  packages_all=("${packages_test[@]}" clang-format-14 shellcheck procps systemd dpkg-dev file lintian debootstrap
    curl prometheus python3-prometheus-client python3-yaml chromium flake8 mypy fonts-dejavu-core libfaketime pgpool2 haproxy npm spin
    rubocop puma ruby-actioncable ruby-activerecord python3-django-channels uvicorn gunicorn python3-hypercorn
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    python3-aiopg python3-async-timeout python3-psycopg-pool python3-sqlalchemy python3-pygresql
    ruby-sequel libdbd-pg-perl libmojo-pg-perl php-cli php-pgsql libpqxx-dev libpgtcl
    golang-go golang-github-lib-pq-dev golang-github-jackc-pgx-v4-dev)
}

missing_packages() {
  local package
  for package in "$@"; do
    # Node.js from elsewhere brings its own npm and headers, and Debian's would not go with it.
    if [[ $package =~ ^(npm|nodejs|libnode-dev|node-pg)$ ]] && command -v npm >/dev/null; then continue; fi
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || echo "$package"
  done
}

# explain_packages STATUS LOG PACKAGE...: why they are not installed, and the script's end.
explain_packages() {
  local status=$1 log=$2
  shift 2
  case $status in
    129 | 130 | 143)
      fail "interrupted while packages were being installed" "Run it again: it goes on where it was." ;;
  esac
  tail -n 20 "$log" | sed 's/^/    /' >&2
  if ! grep -q '^install-packages: begins' "$log"; then
    fail "sudo did not run scripts/install-packages (exit status $status)" \
      "As root (this starts no service): $root/scripts/install-packages $*"
  fi
  fail "apt-get could not install them (all it said: ${log#"$root"/})" \
    "Does 'apt-get update' work? libboost1.81-dev conflicts with libboost1.74-dev: remove libboost-dev first."
}

# need_packages build|demo|jobs|sse_puma|sse_gunicorn|sse_node|test|bench|bench_bindings|all: installs what is missing, and says what. Asks for root only then.
need_packages() {
  local -n wanted=packages_$1
  command -v dpkg-query >/dev/null ||
    fail "this is no Debian: packages cannot be installed for you" "Install these, or what your system calls them:" \
      "${wanted[*]}" "then build with cmake as docs/install.md says."
  local missing
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  ((${#missing[@]})) || return 0
  say "installing ${#missing[@]} packages from Debian: ${missing[*]}"
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || fail "packages are missing, and there is neither root nor sudo" \
      "As root (this starts no service): $root/scripts/install-packages ${missing[*]}"
    as_root=(sudo)
  fi
  local log=$root/build/logs/packages.log status=0
  fresh_log "$log"
  "${as_root[@]}" "$root/scripts/install-packages" "${missing[@]}" >"$log" 2>&1 || status=$?
  if ((status)); then explain_packages "$status" "$log" "${missing[@]}"; fi
  local new units
  new=$(sed -n 's/^new-package //p' "$log")
  units=$(sed -n 's/^disabled-unit //p' "$log" | xargs)
  printf '%s\n' "$new" >>"$root/build/logs/packages-installed.txt"
  say "installed; they stay, with what they depend on: $(wc -w <<<"$new") packages, in build/logs/packages-installed.txt"
  if [[ $units ]]; then say "their services are not started, and not enabled: $units"; fi
}

# --- building -------------------------------------------------------------------------------------------------

# build PRESET DIR TARGETS -- CMAKE-OPTIONS...: configures and builds; TARGETS is one word list.
build() {
  local preset=$1 dir=$2 targets=$3 name
  shift 3
  if [[ ${1:-} == -- ]]; then shift; fi
  name=${dir##*/}
  step "configure $name" "$root/build/logs/$name-configure.log" \
    cmake -S "$root" --preset "$preset" -B "$dir" "$@" || return
  # shellcheck disable=SC2086
  step "build $name" "$root/build/logs/$name-build.log" cmake --build "$dir" -j "$jobs" --target $targets
}

# --- a throwaway PostgreSQL -----------------------------------------------------------------------------------

postgres_bin() {
  local dirs
  mapfile -t dirs < <(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -rV)
  local dir
  for dir in "${dirs[@]}"; do
    if [[ -x $dir/initdb && -x $dir/pg_ctl ]]; then
      echo "$dir"
      return
    fi
  done
  fail "no PostgreSQL server found under /usr/lib/postgresql" \
    "As root (this starts no service): $root/scripts/install-packages postgresql"
}

# PostgreSQL refuses to run as root: as root, its commands run as the package's user.
as_postgres() {
  if [[ $(id -u) == 0 ]]; then
    (cd / && exec setpriv --reuid=postgres --regid=postgres --init-groups "$@")
  else
    "$@"
  fi
}

# start_cluster: a private cluster in a temporary folder, on a Unix socket alone, gone when the script ends.
# Sets cluster_dir and cluster_conninfo.
start_cluster() {
  local bin
  bin=$(postgres_bin)
  # Not in TMPDIR: a socket's path has 107 bytes, stands in connection strings, and its folder is open to postgres.
  cluster_dir=$(mktemp -d /tmp/pgwake-demo.XXXXXX)
  at_exit "stop_cluster $(printf %q "$bin") $(printf %q "$cluster_dir")"
  if [[ $(id -u) == 0 ]]; then chown postgres: "$cluster_dir"; fi
  local log=$root/build/logs/cluster.log
  step "initdb" "$log" as_postgres "$bin/initdb" -D "$cluster_dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 \
    --no-sync --no-instructions || return
  # One-off data: no fsync. No TCP port at all, so that nothing on the host can clash with it.
  step "start PostgreSQL" "$log" as_postgres "$bin/pg_ctl" -D "$cluster_dir/data" -w -t 60 -l "$cluster_dir/log" \
    -o "-c listen_addresses='' -c unix_socket_directories='$cluster_dir' -c fsync=off -c max_connections=100" start ||
    {
      tail -n 20 "$cluster_dir/log" >&2
      return 1
    }
  # Used by the scripts that source this file.
  # shellcheck disable=SC2034
  cluster_conninfo="host=$cluster_dir user=postgres dbname=postgres"
}

stop_cluster() {
  as_postgres "$1/pg_ctl" -D "$2/data" -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf -- "$2"
}
