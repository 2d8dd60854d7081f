#include "daemon/doctor/session.hpp"

#include <chrono>
#include <cstdlib>

#include "common/census.hpp"
#include "common/os/random_word.hpp"
#include "common/redact.hpp"

namespace pgwaked {

using namespace pgwake;
using facts = doctor_facts;
using pg::blocking_session;

namespace {

constexpr millis patience{5'000};
constexpr millis arrival{3'000};
constexpr millis pooler_patience{2'500};
constexpr int pooler_tries = 3;

using row = blocking_session::row;

// Whatever a role or a database has in front of pg_catalog: neither an operator nor a function of its own
// is run. For the one transaction that a message of several statements is, so that nothing is left behind
// in a pooler's session.
std::string plainly(const std::string& sql) {
  return "SELECT pg_catalog.set_config('search_path', 'pg_catalog', true); " + sql;
}

std::optional<row> first_row(blocking_session& on, const std::string& sql) {
  auto rows = on.query(plainly(sql), patience);
  if (!rows || rows->empty()) return std::nullopt;
  return std::move(rows->front());
}

std::string text(const row& r, std::size_t at) { return at < r.size() ? r[at].value_or("") : ""; }
std::int64_t whole(const row& r, std::size_t at) { return std::atoll(text(r, at).c_str()); }
double real(const row& r, std::size_t at) { return std::atof(text(r, at).c_str()); }

std::int64_t pid_of(blocking_session& on) {
  const auto r = first_row(on, "SELECT pg_catalog.pg_backend_pid()");
  return r ? whole(*r, 0) : 0;
}

// The mode of a pooler: a second client that is given the same backend while the first is connected, or a
// backend that changes under a client, prove a shared one.
facts::pooling pooling_of(blocking_session& first, std::optional<blocking_session>& second) {
  const auto before = pid_of(first);
  if (before == first.backend_pid()) return facts::pooling::none;
  if (!second) return facts::pooling::session;
  for (int i = 0; i < pooler_tries; ++i) {
    const auto other = second->query("BEGIN; SELECT pg_catalog.pg_backend_pid()", pooler_patience);
    if (!other && other.error().timed_out) {
      second.reset();  // no server connection for it: the first one holds the only one
      return facts::pooling::session;
    }
    if (!other || other->empty()) return facts::pooling::transaction;  // statement mode has no transactions
    const bool shared = whole(other->front(), 0) == before;
    // The backend that `second` holds is not free now: a shared pool gives `first` another one.
    const bool moved = !shared && pid_of(first) != before;
    second->query("ROLLBACK", patience);
    if (shared || moved) return facts::pooling::transaction;
  }
  return facts::pooling::session;
}

void look_at_settings(blocking_session& on, facts::session_look& out) {
  const auto rows =
      on.query(plainly("SELECT name, setting, source FROM pg_catalog.pg_settings WHERE name IN "
                       "('idle_session_timeout', 'statement_timeout', 'transaction_timeout', "
                       "'idle_in_transaction_session_timeout', 'lock_timeout', 'max_connections', "
                       "'superuser_reserved_connections', 'reserved_connections')"),
               patience);
  if (!rows) return;
  for (const auto& r : *rows) out.settings[text(r, 0)] = {text(r, 1), text(r, 2)};
}

std::int64_t setting(const facts::session_look& s, const char* name) {
  const auto it = s.settings.find(name);
  return it == s.settings.end() ? 0 : std::atoll(it->second.value.c_str());
}

// Doctor's own sessions are told by their name and left out. An ordinary role is not told the kind of other
// roles' backends: those with a database count.
void look_at_slots(blocking_session& on, facts::session_look& out) {
  const std::string mine = "application_name LIKE 'pgwake-doctor@%'";
  if (const auto r = first_row(on,
                               "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE "
                               "(backend_type = 'client backend' OR (backend_type IS NULL "
                               "AND datid IS NOT NULL)) AND NOT (" +
                                   mine + ")"))
    out.slots = facts::slots_look{
        setting(out, "max_connections"),
        setting(out, "superuser_reserved_connections") + setting(out, "reserved_connections"), whole(*r, 0)};
  if (const auto r = first_row(on,
                               "SELECT current_user, rolsuper, rolconnlimit, (SELECT pg_catalog.count(*) "
                               "FROM pg_catalog.pg_stat_activity WHERE usename = current_user AND NOT (" +
                                   mine +
                                   ")), datconnlimit, (SELECT pg_catalog.count(*) FROM "
                                   "pg_catalog.pg_stat_activity WHERE datname = "
                                   "pg_catalog.current_database() AND NOT (" +
                                   mine +
                                   ")) FROM pg_catalog.pg_roles, pg_catalog.pg_database WHERE rolname = "
                                   "current_user AND datname = pg_catalog.current_database()")) {
    facts::role_look role{text(*r, 0),  text(*r, 1) == "t", whole(*r, 2),
                          whole(*r, 3), whole(*r, 4),       whole(*r, 5)};
    if (role.superuser) role.limit = role.database_limit = -1;  // superusers are not bound by them
    out.role = std::move(role);
  }
}

void look_at_queue(blocking_session& on, facts::session_look& out) {
  if (const auto r = first_row(on, "SELECT pg_catalog.pg_notification_queue_usage()"))
    out.queue_usage = real(*r, 0);
  if (const auto r =
          first_row(on,
                    "SELECT pid, application_name, state, extract(epoch FROM pg_catalog.clock_timestamp() - "
                    "xact_start) FROM pg_catalog.pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> "
                    "pg_catalog.pg_backend_pid() ORDER BY xact_start LIMIT 1"))
    out.oldest = facts::transaction_look{whole(*r, 0), text(*r, 1), text(*r, 2), real(*r, 3)};
}

// Hubs and fallbacks by host, out of `KIND@HOST`. A hub with a name of its own counts for this host.
void look_at_census(blocking_session& on, const facts& so_far, facts::session_look& out) {
  const auto rows = on.query(
      plainly("SELECT application_name FROM pg_catalog.pg_stat_activity WHERE application_name <> ''"),
      patience);
  if (!rows) return;
  std::map<std::string, facts::host_census> census;
  for (const auto& r : *rows) {
    const auto name = text(r, 0);
    if (name.starts_with(hub_prefix))
      ++census[name.substr(hub_prefix.size())].hubs;
    else if (name.starts_with(fallback_prefix))
      ++census[name.substr(fallback_prefix.size())].fallbacks;
    else if (name == so_far.configured.application_name)
      ++census[so_far.this_host].hubs;
  }
  out.census = std::move(census);
}

// Drivers that LISTEN at the server itself. Of a session that probes with other statements after its LISTEN
// the last one does not say so: it is not found.
void look_at_drivers(blocking_session& on, const facts& so_far, facts::session_look& out) {
  const auto local = [](const std::string& address) {
    return "(" + address + " IS NULL OR " + address + " <<= '127.0.0.0/8' OR " + address + " <<= '::1' OR " +
           address + " = pg_catalog.inet_server_addr())";
  };
  const std::string listens = "query ~* '^\\s*(listen\\s|do\\s+\\$\\$\\s*begin\\s+listen\\s)'";
  const std::string here = "(client_addr = pg_catalog.inet_client_addr() OR (" + local("client_addr") +
                           " AND " + local("pg_catalog.inet_client_addr()") + "))";
  const auto rows = on.query(
      plainly("SELECT application_name, pg_catalog.sum((" + listens + " AND " + here +
              ")::int), pg_catalog.sum((query = '<insufficient privilege>')::int) "
              "FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database() "
              "AND pid <> pg_catalog.pg_backend_pid() "
              "AND (backend_type = 'client backend' OR backend_type IS NULL) GROUP BY application_name"),
      patience);
  if (!rows) return;
  auto& found = out.direct_listeners.emplace();
  for (const auto& r : *rows) {
    const auto name = text(r, 0);
    const auto& own = so_far.configured.application_name;
    if (name.starts_with(hub_prefix) || name.starts_with(fallback_prefix) || name.starts_with(check_prefix) ||
        name.starts_with("pgwake-doctor@") || (!own.empty() && name == own))
      continue;
    if (const auto listening = whole(r, 1); listening > 0) found[name] = listening;
    out.hidden_sessions += whole(r, 2);
  }
}

void look_at_clock(blocking_session& on, facts::session_look& out) {
  using clock = std::chrono::system_clock;
  const auto seconds = [](clock::time_point t) {
    return std::chrono::duration<double>(t.time_since_epoch()).count();
  };
  const auto before = clock::now();
  const auto r = first_row(on, "SELECT extract(epoch FROM pg_catalog.clock_timestamp())");
  if (r) out.clock_off_s = real(*r, 0) - (seconds(before) + seconds(clock::now())) / 2;
}

std::string random_channel() { return "pgwake.doctor." + std::to_string(random_word()); }

void look_at_delivery(blocking_session& listener, std::optional<blocking_session>& notifier,
                      facts::session_look& out) {
  auto& sender = notifier ? *notifier : listener;
  const auto channel = listener.quoted(random_channel());
  const auto fail = [&](const pg::query_failure& why) {
    const bool waits = why.sqlstate == "55P03" || why.timed_out;
    out.notify = waits ? facts::delivery::commit_waits : facts::delivery::failed;
    out.notify_error = why.message;
  };
  for (auto* one : {&listener, &sender})
    one->query("SELECT pg_catalog.set_config('lock_timeout', '3s', false)", patience);
  if (const auto listened = listener.query("LISTEN " + channel, patience); !listened)
    return fail(listened.error());
  if (const auto sent = sender.query("NOTIFY " + channel + ", 'x'", patience); !sent)
    return fail(sent.error());
  out.notify = listener.next_notification(arrival) ? facts::delivery::arrived : facts::delivery::lost;
  listener.query("UNLISTEN " + channel, patience);
}

std::string place(const pg::host_entry& h) { return (h.host.empty() ? h.hostaddr : h.host) + ":" + h.port; }

}  // namespace

std::optional<bool> in_recovery(blocking_session& session) {
  const auto r = first_row(session, "SELECT pg_catalog.pg_is_in_recovery()");
  if (!r) return std::nullopt;
  return text(*r, 0) == "t";
}

facts::session_look look_through(blocking_session& session, const pg::connect_settings& how,
                                 const facts::server_look& server, const facts& so_far) {
  facts::session_look out;
  out.server = place(server.host);
  out.server_version = session.server_version();
  if (const auto r = first_row(session, "SELECT pg_catalog.current_database()")) out.database = text(*r, 0);
  if (const auto r = first_row(session, "SELECT system_identifier FROM pg_catalog.pg_control_system()"))
    out.system_id = text(*r, 0);
  look_at_settings(session, out);
  std::optional<blocking_session> second;
  if (auto opened = blocking_session::open(how, server.host, how.connect_timeout))
    second.emplace(std::move(*opened));
  else
    out.second_session_error = hide_secrets_in(opened.error().message, how.conninfo);
  out.pooler = pooling_of(session, second);
  // Behind a shared pool a LISTEN would be left behind in another client's session.
  const bool standby = server.in_recovery.value_or(false);
  if (out.pooler != facts::pooling::transaction && !standby) look_at_delivery(session, second, out);
  look_at_slots(session, out);
  look_at_queue(session, out);
  look_at_census(session, so_far, out);
  if (out.pooler == facts::pooling::none) look_at_drivers(session, so_far, out);
  look_at_clock(session, out);
  return out;
}

}  // namespace pgwaked
