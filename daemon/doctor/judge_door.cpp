// doctor's checks of the front door, and of the drivers that should come there.
#include <algorithm>

#include "daemon/doctor/checks.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked::doctor {
namespace {

constexpr const char* check = "front_door";
constexpr std::size_t most_names = 5;

void judge_failure(const pgwake::pg::query_failure& why, const std::string& place, bool connected,
                   doctor_report& out) {
  if (connected && why.sqlstate == "42501")
    return out.findings.push_back(
        ok(check, "libpq connects to " + place + "; `allow` gives this user no channel to try it with"));
  if (connected)
    return out.findings.push_back(
        fail(check, "LISTEN fails at " + place + ": " + why.message,
             "look at the hub's log; `pgwaked status` shows whether it is healthy"));
  const std::string found = "libpq cannot connect to " + place + ": " + why.message;
  if (why.sqlstate == "28000")
    return out.findings.push_back(
        warn(check, found, "run doctor as a user whom `allow` names, or add this one if drivers run as it"));
  if (why.sqlstate == "57P03")
    return out.findings.push_back(
        warn(check, found, "the hub lets nobody in for now; ask again, and raise max_workers if it is full"));
  out.findings.push_back(fail(
      check, found,
      "if front_door, its folder or its port was set after the hub had started, restart the hub (systemctl "
      "restart pgwaked@NAME); if permission is denied, run doctor as root or as a member of the socket's "
      "group; else look for `front door` in the hub's log"));
}

// `3 "puma 2" (5 of that name are at the front door), 1 without application_name`
std::string names_of(const std::map<std::string, std::int64_t>& direct, const doctor_facts& f) {
  std::string out;
  std::size_t named = 0;
  for (const auto& [name, count] : direct) {
    if (!out.empty()) out += ", ";
    if (named++ == most_names) return out + std::to_string(direct.size() - most_names) + " more names";
    out += std::to_string(count) + (name.empty() ? " without application_name" : " " + printable(name));
    if (name.empty() || !f.hub) continue;
    const auto& workers = f.hub->status.workers;
    const auto here = std::count_if(workers.begin(), workers.end(), [&, &called = name](const auto& w) {
      return w.dialect == "pg" && w.name == called;
    });
    if (here > 0) out += " (" + std::to_string(here) + " of that name at the front door)";
  }
  return out;
}

}  // namespace

void judge_drivers(const doctor_facts& f, doctor_report& out) {
  constexpr const char* drivers = "drivers";
  if (!f.settings_errors.empty()) return skip(drivers, "the settings are not known", out);
  if (!f.configured.front_door)
    return out.findings.push_back(
        ok(drivers, "the front door is off: drivers LISTEN at the database itself"));
  if (!f.session) return;
  if (f.session->pooler != doctor_facts::pooling::none)
    return skip(drivers, "behind a pooler sessions of this host cannot be told from others", out);
  if (!f.session->direct_listeners) return;
  const auto& direct = *f.session->direct_listeners;
  std::string hidden;
  if (f.session->hidden_sessions > 0)
    hidden = "; what " + counted(f.session->hidden_sessions, "session") +
             " of other roles said last is not shown to this one (GRANT pg_read_all_stats shows it)";
  if (direct.empty())
    return out.findings.push_back(
        ok(drivers, "no driver of this host is seen to LISTEN at the database itself" + hidden));
  std::int64_t sum = 0;
  for (const auto& [name, count] : direct) sum += count;
  const bool open = f.door && f.door->connected;
  out.findings.push_back(warn(
      drivers,
      counted(sum, "session") + " of this host " + (sum == 1 ? "LISTENs" : "LISTEN") +
          " at the database itself: " + names_of(direct, f) + hidden,
      open
          ? "a driver that fell back to the server stays there until it connects anew: restart what has this "
            "name. One that was never told of the front door: docs/drivers.md says what to change"
          : "see front_door first; once drivers can connect there, restart what has this name: nobody comes "
            "back by himself"));
}

void judge_door(const doctor_facts& f, doctor_report& out) {
  if (!f.settings_errors.empty()) return skip(check, "the settings are not known", out);
  if (!f.configured.front_door)
    return out.findings.push_back(ok(check, "off: drivers LISTEN at the database itself"));
  if (!f.door)
    return skip(check,
                !f.hub                   ? "no hub answers"
                : !f.hub->status.healthy ? "the hub has no session with the server"
                                         : "no session with the server to send a NOTIFY from",
                out);
  const auto& d = *f.door;
  const std::string place = "host=" + d.folder + " port=" + d.port;
  if (d.failure) return judge_failure(*d.failure, place, d.connected, out);
  if (!d.not_published.empty())
    return out.findings.push_back(
        ok(check, "libpq connects to " + place + " and LISTENs; no NOTIFY was tried: " + d.not_published));
  if (!d.arrived)
    return out.findings.push_back(fail(
        check, "a NOTIFY that the server took did not arrive at " + place + " within 3 s",
        "see the check `listen` first; if that is ok, the hub does not pass on what it gets: look at its "
        "log, and `pgwaked control reconnect` gives it a new session"));
  out.findings.push_back(ok(check, "a NOTIFY of the server arrived at " + place));
}

}  // namespace pgwaked::doctor
