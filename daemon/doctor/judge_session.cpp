// doctor's checks of what a session sees: pooler, delivery, version, slots, queue, timeouts,
// fallbacks, clock, budget.
#include <algorithm>
#include <cmath>

#include "daemon/doctor/checks.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked::doctor {
namespace {

using look = doctor_facts::session_look;
using pooling = doctor_facts::pooling;
using delivery = doctor_facts::delivery;

constexpr std::int64_t oldest_version = 120'000;
constexpr double clock_tolerance_s = 5;
constexpr double queue_failure = 0.75;

void judge_pooler(const doctor_facts& f, const look& s, doctor_report& out) {
  if (s.pooler == pooling::none)
    return out.findings.push_back(ok("pooler", "none: the session is PostgreSQL's own"));
  if (s.pooler == pooling::transaction)
    return out.findings.push_back(
        fail("pooler",
             "a pooler in transaction (or statement) mode is in between: LISTEN seems to work there, and "
             "notifications do not arrive",
             "give pgwake a direct connection to PostgreSQL: the host and port of the server itself"));
  if (f.configured.allow_session_pooler)
    return out.findings.push_back(
        ok("pooler", "a pooler in session mode is in between, and allow_session_pooler is on"));
  out.findings.push_back(
      fail("pooler", "a pooler in session mode is in between; the hub refuses it",
           "give pgwake a direct connection to PostgreSQL, or set allow_session_pooler = true "
           "(each hub then keeps one server connection of the pool for good)"));
}

void judge_notify(const look& s, doctor_report& out) {
  if (!s.notify)
    return skip("listen",
                s.pooler == pooling::transaction ? "a LISTEN would be left behind in the pool"
                                                 : "a standby does not take it",
                out);
  switch (*s.notify) {
    case delivery::arrived:
      return out.findings.push_back(
          ok("listen", s.second_session_error.empty()
                           ? "a NOTIFY of one session arrived in another"
                           : "a NOTIFY arrived in the session that sent it; a second session was refused: " +
                                 s.second_session_error));
    case delivery::commit_waits:
      return out.findings.push_back(warn(
          "listen", "NOTIFY waits behind another session's commit: " + s.notify_error,
          "a transaction that notified waits for a synchronous standby (synchronous_standby_names); until it "
          "ends nobody's NOTIFY commits on this server"));
    case delivery::lost:
      return out.findings.push_back(
          fail("listen", "a NOTIFY was committed and did not arrive within 3 s",
               "something between here and PostgreSQL swallows notifications: a pooler or "
               "proxy, or a server that is overloaded"));
    case delivery::failed:
      return out.findings.push_back(fail("listen", "LISTEN or NOTIFY fails: " + s.notify_error,
                                         "pgwake needs a primary that takes both"));
  }
}

void judge_version(std::int64_t version, doctor_report& out) {
  const auto name = printable(server_version_name(version));
  if (version < oldest_version)
    return out.findings.push_back(warn("version", name + " is older than any version pgwake was tried with",
                                       "upgrade PostgreSQL: this one gets no fixes any more"));
  out.findings.push_back(ok("version", name));
}

std::string who(const doctor_facts::transaction_look& t) {
  return "PID " + std::to_string(t.pid) +
         (t.application_name.empty() ? std::string() : " (" + t.application_name + ")") + ", " +
         (t.state.empty() ? "state unknown" : t.state) + ", in a transaction for " +
         short_duration(std::chrono::milliseconds(static_cast<std::int64_t>(t.age_s * 1000)));
}

void judge_slots(const doctor_facts& f, const look& s, doctor_report& out) {
  if (!s.slots) return;
  const auto& n = *s.slots;
  const auto free = n.free_for_us();
  std::string found = std::to_string(n.used) + " of " + std::to_string(n.max_connections) +
                      " connections in use, " + std::to_string(n.reserved) + " reserved, " +
                      std::to_string(free) + " free";
  const auto bound = [&](const char* what, std::int64_t limit, std::int64_t in_use) {
    if (limit >= 0)
      found += "; the " + std::string(what) + " may have " + std::to_string(limit) + " and has " +
               std::to_string(in_use);
    return limit >= 0 && in_use >= limit;
  };
  std::int64_t fallbacks = 0;
  for (const auto& [host, census] : s.census.value_or(std::map<std::string, doctor_facts::host_census>()))
    fallbacks += census.fallbacks;
  if (fallbacks > 0) found += "; " + counted(fallbacks, "connection") + " of them pgwake's own fallbacks";
  bool full = free == 0;
  if (s.role) {
    full = bound("role", s.role->limit, s.role->in_use) || full;
    full = bound("database", s.role->database_limit, s.role->database_in_use) || full;
  }
  const bool hub_lives = f.hub && f.hub->status.healthy;
  const char* advice =
      "raise max_connections or the CONNECTION LIMIT, or put the application's queries (not pgwake) behind "
      "a pooler; set PGWAKE_FALLBACK_LIMIT for the workers; from PostgreSQL 16 on, reserved_connections and "
      "a GRANT of pg_use_reserved_connections keep a slot for the hub's role";
  if (full)
    return out.findings.push_back(
        hub_lives ? warn("slots", found + "; no fallback and no reconnect gets one", advice)
                  : fail("slots", found, advice));
  if (free <= 2 || free * 20 <= n.max_connections)
    return out.findings.push_back(warn("slots", found, advice));
  out.findings.push_back(ok("slots", found));
}

void judge_queue(const doctor_facts& f, double usage,
                 const std::optional<doctor_facts::transaction_look>& oldest, doctor_report& out) {
  const std::string found = number(usage * 100) + " % of the notify queue is in use (threshold " +
                            number(f.queue_threshold * 100) + " %)";
  if (usage < f.queue_threshold) return out.findings.push_back(ok("queue", found));
  std::string advice =
      "a session that has run LISTEN is idle in transaction, or does not read; end it "
      "(pg_terminate_backend). At 100 % every NOTIFY on the server fails";
  if (oldest) advice += ". The oldest transaction: " + who(*oldest);
  out.findings.push_back(usage >= queue_failure ? fail("queue", found, advice)
                                                : warn("queue", found, advice));
}

void judge_timeouts(const look& s, doctor_report& out) {
  std::string killers;
  std::string others;
  for (const char* name : {"idle_session_timeout", "idle_in_transaction_session_timeout", "statement_timeout",
                           "transaction_timeout", "lock_timeout"}) {
    const auto it = s.settings.find(name);
    if (it == s.settings.end() || it->second.value == "0") continue;
    auto& list = std::string_view(name) == "idle_session_timeout" ? killers : others;
    list += (list.empty() ? "" : ", ") + std::string(name) + " = " + it->second.value + " ms (" +
            it->second.source + ")";
  }
  if (!killers.empty())
    return out.findings.push_back(warn("timeouts", killers + " ends idle listeners",
                                       "pgwake clears it for its own sessions; other programs that LISTEN as "
                                       "this role are cut off. ALTER ROLE "
                                       "... SET idle_session_timeout = 0 spares them"));
  out.findings.push_back(ok("timeouts", others.empty()
                                            ? "nothing ends an idle listener"
                                            : "nothing ends an idle listener; pgwake clears " + others));
}

void judge_fallback(const doctor_facts& f, const look& s, doctor_report& out) {
  if (!s.census) return;
  const auto it = s.census->find(f.this_host);
  const auto here = it == s.census->end() ? doctor_facts::host_census{} : it->second;
  if (here.fallbacks > 0)
    return out.findings.push_back(warn(
        "fallback",
        counted(here.fallbacks, "worker") + " of this host " +
            (here.fallbacks == 1 ? "uses its own connection" : "use their own connections"),
        f.hub && f.hub->status.healthy
            ? "they come back by themselves within seconds, unless they may not connect to the socket (their "
              "user must be in its group, and they started anew since), name another path, or have reattach "
              "= never or policy = direct; the reason of their STATE event says which"
            : "they come back by themselves once the hub is healthy"));
  if (here.hubs > 1)
    return out.findings.push_back(
        warn("fallback",
             std::to_string(here.hubs) + " hubs of this host (or of hosts of the same name) are connected",
             "one per database is enough; is one left over, or do two hosts share a name?"));
  out.findings.push_back(ok("fallback", "no worker of this host is on its own connection"));
}

void judge_clock(const look& s, doctor_report& out) {
  if (!s.clock_off_s) return;
  const double off = *s.clock_off_s;
  if (std::abs(off) < clock_tolerance_s)
    return out.findings.push_back(ok("clock", "as the server's, to " + number(std::abs(off)) + " s"));
  out.findings.push_back(
      warn("clock",
           "the server's clock is " + number(std::abs(off)) + " s " + (off > 0 ? "ahead of" : "behind") +
               " this host's",
           "use NTP on both: log lines cannot be matched, and certificates may seem invalid"));
}

void judge_budget(const doctor_facts& f, const look& s, doctor_report& out) {
  if (!s.census || !s.slots) return;
  connection_budget b;
  b.by_host = *s.census;
  for (const auto& [host, n] : b.by_host) b.server_now += n.hubs + n.fallbacks;
  const auto it = b.by_host.find(f.this_host);
  const auto here = it == b.by_host.end() ? doctor_facts::host_census{} : it->second;
  b.here_now = here.hubs + here.fallbacks;
  b.workers_here = f.hub ? static_cast<std::int64_t>(f.hub->status.totals.workers) : 0;
  b.fallback_limit = f.fallback_limit;
  auto fallen = b.workers_here + here.fallbacks;
  if (b.fallback_limit) fallen = std::min(fallen, static_cast<std::int64_t>(*b.fallback_limit));
  b.here_worst = std::max<std::int64_t>(here.hubs, f.hub ? 1 : 0) + fallen;
  b.used = s.slots->used;
  b.reserved = s.slots->reserved;
  b.max_connections = s.slots->max_connections;
  b.free = s.slots->free_for_us();
  out.budget = b;
  const auto more = std::max<std::int64_t>(0, b.here_worst - b.here_now);
  const std::string found = "this host pins " + counted(b.here_now, "connection") + " now, " +
                            std::to_string(b.here_worst) + " at worst; the server has " +
                            std::to_string(b.free) + " free of " + std::to_string(b.max_connections);
  if (more > b.free)
    return out.findings.push_back(
        warn("budget", found + ": if the hub stops, not every worker gets a connection",
             "set PGWAKE_FALLBACK_LIMIT for the workers to " + std::to_string(b.free / 2) +
                 " or less (the rest poll meanwhile), or raise max_connections"));
  out.findings.push_back(ok("budget", found));
}

}  // namespace

void judge_session(const doctor_facts& f, const look& s, doctor_report& out) {
  judge_pooler(f, s, out);
  judge_notify(s, out);
  judge_version(s.server_version, out);
  judge_slots(f, s, out);
  if (s.queue_usage) judge_queue(f, *s.queue_usage, s.oldest, out);
  judge_timeouts(s, out);
  judge_fallback(f, s, out);
  judge_clock(s, out);
  judge_budget(f, s, out);
}

void judge_hubs_session(const doctor_facts& f, const hub_status::upstream_state& s, doctor_report& out) {
  out.findings.push_back(ok("primary", "the hub's session is on a primary"));
  out.findings.push_back(
      ok("pooler", s.pooler ? "the hub's session goes through a pooler in session mode, which the "
                              "hub was told to accept"
                            : "none: the hub's session is PostgreSQL's own"));
  if (s.server_version > 0) judge_version(s.server_version, out);
  if (s.queue_usage) judge_queue(f, *s.queue_usage, std::nullopt, out);
}

}  // namespace pgwaked::doctor
