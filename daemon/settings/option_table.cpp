#include "daemon/settings/option_table.hpp"

#include <algorithm>
#include <array>

namespace pgwaked {
namespace {

constexpr std::uint64_t second = 1'000;
constexpr std::uint64_t minute = 60 * second;
constexpr std::uint64_t hour = 60 * minute;
constexpr std::uint64_t kib = 1ULL << 10;
constexpr std::uint64_t gib = 1ULL << 30;

using kind = option_kind;
using s = settings;

// The one list. A row here, a member in settings.hpp, an entry in config/pgwaked.toml and a row in
// docs/configure.md are a setting; options_test.cpp holds them together.
constexpr std::array table{
    option{.name = "database",
           .kind = kind::text,
           .field = &s::database,
           .initial = "",
           .reloadable = true,
           .help = "libpq connection string; without it libpq's PG* environment applies",
           .secret = true},
    option{.name = "database_file",
           .kind = kind::path,
           .field = &s::database_file,
           .initial = "",
           .reloadable = true,
           .help = "file that holds the connection string, such as a systemd credential"},
    option{.name = "config",
           .kind = kind::path,
           .field = &s::config,
           .initial = "",
           .reloadable = false,
           .help = "file with settings, in TOML"},
    option{.name = "application_name",
           .kind = kind::text,
           .field = &s::application_name,
           .initial = "",
           .reloadable = true,
           .help = "name in pg_stat_activity, otherwise pgwaked@HOST",
           .why = "PostgreSQL cuts it after 63 bytes and replaces what is not printable ASCII"},
    option{.name = "connect_timeout",
           .kind = kind::duration,
           .field = &s::connect_timeout,
           .initial = "5s",
           .reloadable = true,
           .help = "time for an attempt to connect, per host",
           .min = 2 * second,
           .max = 10 * minute,
           .why = "libpq counts whole seconds and takes no less than two"},
    option{.name = "probe_interval",
           .kind = kind::duration,
           .field = &s::probe_interval,
           .initial = "15s",
           .reloadable = true,
           .help = "silence from PostgreSQL after which the connection is probed",
           .min = 100,
           .max = hour,
           .why = "a lost connection is noticed only after this and probe_timeout"},
    option{.name = "probe_timeout",
           .kind = kind::duration,
           .field = &s::probe_timeout,
           .initial = "5s",
           .reloadable = true,
           .help = "silence after a probe at which the connection counts as lost",
           .min = 100,
           .max = 10 * minute,
           .why = "below it a busy server looks dead, above it a dead one looks busy"},
    option{.name = "allow_session_pooler",
           .kind = kind::boolean,
           .field = &s::allow_session_pooler,
           .initial = "false",
           .reloadable = true,
           .help = "accept a session-mode pooler before PostgreSQL"},
    option{.name = "socket",
           .kind = kind::path,
           .field = &s::socket,
           .initial = "/run/pgwake/main/pgwake.sock",
           .reloadable = false,
           .help = "Unix socket at which workers connect",
           .why = "a Unix socket address holds 107 bytes"},
    option{.name = "socket_mode",
           .kind = kind::mode,
           .field = &s::socket_mode,
           .initial = "0660",
           .reloadable = false,
           .help = "permissions of the socket; connecting takes write permission",
           .max = 0777},
    option{.name = "socket_group",
           .kind = kind::text,
           .field = &s::socket_group,
           .initial = "",
           .reloadable = false,
           .help = "group of the socket, name or number, otherwise the daemon's own"},
    option{.name = "allow",
           .kind = kind::list,
           .field = &s::allow,
           .initial = "",
           .reloadable = true,
           .help = "who may connect, to which channels: 'WHO [GLOB,...]'; repeatable"},
    option{.name = "queue_template",
           .kind = kind::text,
           .field = &s::queue_template,
           .initial = "pgmq.q_{}.INSERT",
           .reloadable = false,
           .help = "channel of a queue {} that a v0 (pgbus) worker names"},
    option{.name = "front_door",
           .kind = kind::boolean,
           .field = &s::front_door,
           .initial = "false",
           .reloadable = false,
           .help = "serve PostgreSQL's own protocol, so that any driver can LISTEN here"},
    option{.name = "front_door_dir",
           .kind = kind::path,
           .field = &s::front_door_dir,
           .initial = "",
           .reloadable = false,
           .help = "folder of its socket, a driver's host; otherwise that of the hub's socket"},
    option{.name = "front_door_port",
           .kind = kind::count,
           .field = &s::front_door_port,
           .initial = "5432",
           .reloadable = false,
           .help = "number in its socket's name .s.PGSQL.PORT, a driver's port",
           .min = 1,
           .max = 65'535,
           .why = "drivers know no other port"},
    option{.name = "front_door_grace",
           .kind = kind::duration,
           .field = &s::front_door_grace,
           .initial = "15s",
           .reloadable = true,
           .help = "outage after which drivers are sent to the database itself",
           .min = 0,
           .max = hour,
           .why = "until then they are kept waiting"},
    option{.name = "heartbeat",
           .kind = kind::duration,
           .field = &s::heartbeat,
           .initial = "5s",
           .reloadable = false,
           .help = "how often each worker is told the hub's health",
           .min = 100,
           .max = minute,
           .why = "a worker leaves a hub that is silent for three heartbeats, so a long one delays that"},
    option{.name = "frame_deadline",
           .kind = kind::duration,
           .field = &s::frame_deadline,
           .initial = "10s",
           .reloadable = true,
           .help = "time for a worker to finish a frame that it began",
           .min = 100,
           .max = 10 * minute,
           .why = "an unfinished frame holds memory"},
    option{.name = "unlisten_linger",
           .kind = kind::duration,
           .field = &s::unlisten_linger,
           .initial = "30s",
           .reloadable = true,
           .help = "how long a channel that no worker holds is still listened to",
           .min = 0,
           .max = hour,
           .why = "each lingering channel makes every notification a little dearer"},
    option{.name = "drain_grace",
           .kind = kind::duration,
           .field = &s::drain_grace,
           .initial = "5s",
           .reloadable = true,
           .help = "time for workers to move away before a planned stop",
           .min = 0,
           .max = 10 * minute,
           .why = "the service manager's stop timeout must be longer"},
    option{.name = "outbox_max_bytes",
           .kind = kind::size,
           .field = &s::outbox_max_bytes,
           .initial = "16MiB",
           .reloadable = true,
           .help = "memory for unsent payloads past which a worker that takes none is evicted",
           .min = 64 * kib,
           .max = 64 * gib,
           .why = "one payload of 7,999 bytes may take 48,000 as JSON"},
    option{.name = "outbox_max_frames",
           .kind = kind::count,
           .field = &s::outbox_max_frames,
           .initial = "1000000",
           .reloadable = true,
           .help = "the same as a number of frames",
           .min = 1,
           .max = 100'000'000,
           .why = "memory is bounded by outbox_max_bytes already"},
    option{.name = "outbox_total_max_bytes",
           .kind = kind::size,
           .field = &s::outbox_total_max_bytes,
           .initial = "512MiB",
           .reloadable = true,
           .help = "memory for all unsent at which the fullest user's fullest goes",
           .min = 64 * kib,
           .max = 1024 * gib,
           .why = "at least one frame must fit"},
    option{.name = "max_workers",
           .kind = kind::count,
           .field = &s::max_workers,
           .initial = "4096",
           .reloadable = true,
           .help = "workers at one time; the descriptor limit may allow fewer",
           .min = 1,
           .max = 1'000'000,
           .why = "each takes one descriptor"},
    option{.name = "max_workers_per_user",
           .kind = kind::count,
           .field = &s::max_workers_per_user,
           .initial = "0",
           .reloadable = true,
           .help = "workers of one user at one time; 0: three quarters of max_workers",
           .min = 0,
           .max = 1'000'000,
           .why = "so that one user cannot lock out the others"},
    option{.name = "max_channels",
           .kind = kind::count,
           .field = &s::max_channels,
           .initial = "50000",
           .reloadable = true,
           .help = "channels listened to at one time",
           .min = 1,
           .max = 1'000'000,
           .why = "the cost of LISTEN grows with the square of it"},
    option{.name = "max_channels_per_user",
           .kind = kind::count,
           .field = &s::max_channels_per_user,
           .initial = "0",
           .reloadable = true,
           .help = "channels of one user's workers at one time; 0: three quarters of max_channels",
           .min = 0,
           .max = 1'000'000,
           .why = "so that one user cannot take those of the others"},
    option{.name = "log_level",
           .kind = kind::level,
           .field = &s::log_level,
           .initial = "info",
           .reloadable = true,
           .help = "least severity logged: trace, debug, info, warning, error"},
    option{.name = "log_format",
           .kind = kind::format,
           .field = &s::log_format,
           .initial = "text",
           .reloadable = false,
           .help = "text or json, one event a line on stderr"},
    option{.name = "metrics_listen",
           .kind = kind::address,
           .field = &s::metrics_listen,
           .initial = "off",
           .reloadable = false,
           .help = "where metrics are served: ADDRESS:PORT or unix:PATH",
           .why = "without a token there is no authentication, so it stays on this host"},
    option{.name = "metrics_token_file",
           .kind = kind::path,
           .field = &s::metrics_token_file,
           .initial = "",
           .reloadable = false,
           .help = "file with the bearer token that metrics by TCP ask for"},
};

// What the client library and the commands read and the daemon does not. Add a variable here once some part
// of pgwake reads it, or `pgwaked run` takes it for a misspelling.
constexpr auto foreign = std::to_array<std::string_view>({
    "PGWAKE_ACK_TIMEOUT",
    "PGWAKE_FALLBACK_APPLICATION_NAME",
    "PGWAKE_FALLBACK_DIR",
    "PGWAKE_FALLBACK_LIMIT",
    "PGWAKE_HANDOVER_DEADLINE",
    "PGWAKE_HANDOVER_MAX_BYTES",
    "PGWAKE_HUB_USER",
    "PGWAKE_NAME",
    "PGWAKE_POLICY",
    "PGWAKE_POLL_INTERVAL",
    "PGWAKE_QUEUE_MAX_BYTES",
    "PGWAKE_REATTACH",
    "PGWAKE_RETURN_DELAY",
    "PGWAKE_RETURN_DELAY_MAX",
    "PGWAKE_SAFETY_POLL",
    "PGWAKE_UNHEALTHY_GRACE",
    "PGWAKE_WELCOME_TIMEOUT",
});
// Test harnesses may hand anything to the processes they start.
constexpr std::string_view test_prefix = "PGWAKE_TEST_";

}  // namespace

std::span<const option> option_table() { return table; }

const option* find_option(std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const option& o) { return o.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::string flag_of(std::string_view name) {
  std::string out = "--" + std::string(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string environment_of(std::string_view name) {
  std::string out = "PGWAKE_" + std::string(name);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::string_view placeholder_of(const option& which) {
  switch (which.kind) {
    case option_kind::path:
      return "PATH";
    case option_kind::duration:
      return "DURATION";
    case option_kind::size:
      return "SIZE";
    case option_kind::count:
      return "NUMBER";
    case option_kind::boolean:
      return "";
    case option_kind::mode:
      return "MODE";
    case option_kind::list:
      return "RULE";
    case option_kind::level:
      return "LEVEL";
    case option_kind::format:
      return "FORMAT";
    case option_kind::address:
      return "ADDRESS";
    case option_kind::text:
      break;
  }
  if (which.name == "database") return "CONNINFO";
  if (which.name == "socket_group") return "GROUP";
  if (which.name == "queue_template") return "TEMPLATE";
  return "NAME";
}

std::span<const std::string_view> foreign_environment() { return foreign; }

bool known_environment(std::string_view variable) {
  if (variable.substr(0, test_prefix.size()) == test_prefix) return true;
  if (std::find(foreign.begin(), foreign.end(), variable) != foreign.end()) return true;
  return std::any_of(table.begin(), table.end(),
                     [&](const option& o) { return environment_of(o.name) == variable; });
}

}  // namespace pgwaked
