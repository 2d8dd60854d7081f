#include "client/src/settings/settings.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "common/clean_text.hpp"
#include "common/redact.hpp"
#include "common/unicode.hpp"
#include "common/units.hpp"

namespace pgwake::client {
namespace {

constexpr std::size_t max_socket_path = 107;  // of sockaddr_un, without the NUL
constexpr millis year{365LL * 24 * 3600 * 1000};

std::string duration(millis& out, std::string_view text, millis least) {
  const auto parsed = parse_duration(text);
  if (!parsed) return parsed.error().reason;
  if (*parsed < least) return "the least is " + format_duration(least);
  if (*parsed > year) return "the most is " + format_duration(year);
  out = *parsed;
  return "";
}

std::string size(std::size_t& out, std::string_view text, std::size_t least) {
  const auto parsed = parse_size(text);
  if (!parsed) return parsed.error().reason;
  if (*parsed < least) return "the least is " + format_size(least);
  if (*parsed > std::numeric_limits<std::size_t>::max() / 4) return "the number is too large";
  out = static_cast<std::size_t>(*parsed);
  return "";
}

// Empty: auto.
std::string count_or_auto(std::optional<std::uint64_t>& out, std::string_view text, std::uint64_t most) {
  out.reset();
  if (text == "auto") return "";
  const auto parsed = parse_count(text);
  if (!parsed) return parsed.error().reason + ", or auto";
  if (*parsed > most) return "the most is " + std::to_string(most);
  out = *parsed;
  return "";
}

std::string text(std::string& out, std::string_view value) {
  out = value;
  return "";
}

std::string socket_path(std::string& out, std::string_view value) {
  if (value.empty()) return "empty; write the path of the hub's socket";
  if (value.size() > max_socket_path)
    return "a socket's path has at most 107 bytes, this one has " + std::to_string(value.size());
  return text(out, value);
}

// In the daemon's words: the variable may be meant for both.
std::string on_or_off(bool& out, std::string_view value) {
  const auto any_of = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), value) != words.end();
  };
  const bool on = any_of({"on", "true", "yes", "1"});
  if (!on && !any_of({"off", "false", "no", "0"})) return "write on or off";
  out = on;
  return "";
}

// The daemon's rule.
std::string set_application_name(settings& s, std::string_view value) {
  if (value.size() > 63 || !pgwake::is_printable_ascii(value))
    return "at most 63 printable ASCII characters; PostgreSQL cuts or replaces what is more";
  return text(s.application_name, value);
}

std::string set_policy(settings& s, std::string_view value) {
  if (value == "listener")
    s.failover.policy = policy::listener;
  else if (value == "poll")
    s.failover.policy = policy::poll;
  else if (value == "none")
    s.failover.policy = policy::none;
  else if (value == "direct")
    s.failover.policy = policy::direct;
  else
    return "write listener, poll, none or direct";
  return "";
}

std::string set_reattach(settings& s, std::string_view value) {
  if (value != "auto" && value != "never") return "write auto or never";
  s.failover.reattach = value == "auto";
  return "";
}

}  // namespace

const std::vector<option>& option_table() {
  using sv = std::string_view;
  static const std::vector<option> table = {
      {"socket", "PGWAKE_SOCKET", "/run/pgwake/main/pgwake.sock", "path of the hub's Unix socket", true,
       [](settings& s, sv v) { return socket_path(s.socket, v); }},
      {"database", "PGWAKE_DATABASE", "",
       "libpq connection string of the own connection; empty: libpq's PG* variables", true,
       [](settings& s, sv v) { return text(s.database, v); }},
      {"name", "PGWAKE_NAME", "", "what `pgwaked status` calls this worker; empty: the program's name", true,
       [](settings& s, sv v) { return text(s.failover.name, v); }},
      // PGWAKE_APPLICATION_NAME is the hub's: under one name nobody could tell hubs from fallbacks.
      {"application_name", "PGWAKE_FALLBACK_APPLICATION_NAME", "",
       "of the own connection in pg_stat_activity; empty: pgwake-fallback@HOST", true, set_application_name},
      {"policy", "PGWAKE_POLICY", "listener",
       "while the hub cannot serve: listener (an own connection), poll (reminders), none (wait); direct: "
       "never the hub",
       false, set_policy},
      {"reattach", "PGWAKE_REATTACH", "auto",
       "auto: back to the hub when it is well; never: once left, it is left", false, set_reattach},
      {"fallback_limit", "PGWAKE_FALLBACK_LIMIT", "auto",
       "most own connections of all processes of this host at one time; auto: a quarter of what the server "
       "has for ordinary roles, 8 while that is not known, no limit under the policy direct; 0: no limit",
       false, [](settings& s, sv v) { return count_or_auto(s.fallback_limit, v, 10'000); }},
      {"fallback_dir", "PGWAKE_FALLBACK_DIR", "/run/lock/pgwake",
       "where the slots of fallback_limit are files", false,
       [](settings& s, sv v) {
         return v.starts_with('/') ? text(s.fallback_dir, v) : std::string("write an absolute path");
       }},
      {"poll_interval", "PGWAKE_POLL_INTERVAL", "2s",
       "between reminders while degraded (poll, or no slot to be had)", false,
       [](settings& s, sv v) { return duration(s.failover.poll_interval, v, millis{10}); }},
      {"safety_poll", "PGWAKE_SAFETY_POLL", "0s", "between reminders while all is well; 0s: none", false,
       [](settings& s, sv v) { return duration(s.failover.safety_poll, v, millis{0}); }},
      {"unhealthy_grace", "PGWAKE_UNHEALTHY_GRACE", "15s",
       "how long a hub that says it is unhealthy is borne with", false,
       [](settings& s, sv v) { return duration(s.failover.unhealthy_grace, v, millis{0}); }},
      {"return_delay", "PGWAKE_RETURN_DELAY", "2s",
       "at most so long until the return to a hub that is well again; longer while it does not stay well",
       false, [](settings& s, sv v) { return duration(s.failover.return_delay, v, millis{0}); }},
      {"return_delay_max", "PGWAKE_RETURN_DELAY_MAX", "1m", "and at most so long", false,
       [](settings& s, sv v) { return duration(s.failover.return_delay_cap, v, millis{0}); }},
      {"handover_deadline", "PGWAKE_HANDOVER_DEADLINE", "5s",
       "for one hand-over between hub and own connection", false,
       [](settings& s, sv v) { return duration(s.failover.handover_deadline, v, millis{100}); }},
      {"handover_max_bytes", "PGWAKE_HANDOVER_MAX_BYTES", "16MiB", "held back at most during a hand-over",
       false, [](settings& s, sv v) { return size(s.failover.handover_max_bytes, v, 64U << 10U); }},
      {"queue_max_bytes", "PGWAKE_QUEUE_MAX_BYTES", "64MiB",
       "payloads that wait for the program, counted with all that it takes to keep them; beyond it they are "
       "discarded and a gap says so",
       false, [](settings& s, sv v) { return size(s.queue_max_bytes, v, 16U << 10U); }},
      {"welcome_timeout", "PGWAKE_WELCOME_TIMEOUT", "2s", "until the hub must have answered a new connection",
       false, [](settings& s, sv v) { return duration(s.failover.welcome_timeout, v, millis{10}); }},
      {"ack_timeout", "PGWAKE_ACK_TIMEOUT", "3s",
       "a hub that is healthy and answers no subscription so long is left", false,
       [](settings& s, sv v) { return duration(s.failover.ack_timeout, v, millis{10}); }},
      {"connect_timeout", "PGWAKE_CONNECT_TIMEOUT", "5s", "of the own connection, for each of its hosts",
       false, [](settings& s, sv v) { return duration(s.connect_timeout, v, millis{1'000}); }},
      {"probe_interval", "PGWAKE_PROBE_INTERVAL", "15s", "a silent own connection is probed so often", false,
       [](settings& s, sv v) { return duration(s.upstream.probe_interval, v, millis{100}); }},
      {"probe_timeout", "PGWAKE_PROBE_TIMEOUT", "5s", "and given up after so long without a byte", false,
       [](settings& s, sv v) { return duration(s.upstream.probe_timeout, v, millis{100}); }},
      {"allow_session_pooler", "PGWAKE_ALLOW_SESSION_POOLER", "off",
       "on: the own connection may run through a pooler in session mode", false,
       [](settings& s, sv v) { return on_or_off(s.upstream.allow_session_pooler, v); }},
      {"hub_user", "PGWAKE_HUB_USER", "pgwake",
       "the hub is trusted if it runs as root, as this user, or as oneself", false,
       [](settings& s, sv v) { return text(s.hub_user, v); }},
  };
  return table;
}

const option* find_option(std::string_view name) {
  for (const auto& o : option_table())
    if (name == o.name) return &o;
  return nullptr;
}

std::optional<settings> resolve(const values& program, const environment& env, std::string& fault) {
  settings out;
  for (const auto& o : option_table()) {
    const auto said = program.find(o.name);
    const char* variable = env ? env(o.environment) : nullptr;
    const std::string_view outside = clean_text(variable != nullptr ? variable : "");
    const bool from_program = said != program.end() && (o.program_wins || outside.empty());
    if (!from_program && outside.empty()) continue;
    const std::string value = from_program ? said->second : std::string(outside);
    const std::string_view called = from_program ? o.name : o.environment;
    const bool secret = std::string_view(o.name) == "database";
    if (secret) out.database_called = called;
    if (const auto why = o.set(out, value); !why.empty()) {
      fault = std::string(called) + (secret ? "" : "=" + hide_in_value(value)) + ": " + why;
      return std::nullopt;
    }
  }
  // Under `direct` a limit that nobody has asked for would leave most workers without a connection for good.
  const bool by_default = !out.fallback_limit && out.failover.policy != policy::direct;
  out.failover.limited = by_default || out.fallback_limit.value_or(0) > 0;
  return out;
}

}  // namespace pgwake::client
