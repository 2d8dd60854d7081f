// doctor's check of the front door.
#include "daemon/doctor/checks.hpp"

namespace pgwaked::doctor {
namespace {

constexpr const char* check = "front_door";

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

}  // namespace

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
