// The verdicts, check by check, in the order of the chain from settings to budget.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "daemon/doctor/checks.hpp"
#include "daemon/status/text.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace doctor {

std::string number(double value) {
  auto text = std::to_string(std::round(value * 100) / 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string counted(std::int64_t n, const char* thing) {
  return grouped(static_cast<std::uint64_t>(std::max<std::int64_t>(0, n))) + " " + thing +
         (n == 1 ? "" : "s");
}

finding ok(const char* check, std::string found) { return {check, verdict::ok, std::move(found), ""}; }
finding warn(const char* check, std::string found, std::string advice) {
  return {check, verdict::warning, std::move(found), std::move(advice)};
}
finding fail(const char* check, std::string found, std::string advice) {
  return {check, verdict::failure, std::move(found), std::move(advice)};
}

void skip(const char* check, std::string why, doctor_report& out) {
  out.skipped.push_back({check, std::move(why)});
}

void judge_settings(const doctor_facts& f, doctor_report& out) {
  for (const auto& e : f.number_errors)
    out.findings.push_back(fail("settings", e, "correct it; doctor went on as if it were not set"));
  for (const auto& e : f.settings_errors)
    out.findings.push_back(
        fail("settings", e, "correct it; `pgwaked config` shows every setting and where it comes from"));
  if (!f.settings_errors.empty()) return;
  if (!f.target_fault.empty())
    return out.findings.push_back(
        fail("settings", "libpq cannot use the connection string: " + f.target_fault,
             "correct `database`; docs: https://www.postgresql.org/docs/current/libpq-connect.html"));
  for (const auto& w : f.settings_warnings) {
    const auto end = std::min(w.find("; "), w.size());
    out.findings.push_back(warn("settings", w.substr(0, end), w.substr(std::min(end + 2, w.size()))));
  }
  for (const auto& u : f.unreadable)
    out.findings.push_back(fail("settings",
                                u.path + " cannot be read by the hub's user " + u.account + ": " + u.reason,
                                "let it: chgrp " + u.account +
                                    " and chmod 640 the file (a umask of 077 closed it), and open "
                                    "the folders on the way"));
  if (!f.open_passfile.empty())
    out.findings.push_back(warn(
        "settings", "the passfile " + f.open_passfile + " may be read by others, so that libpq ignores it",
        "chmod 600 it"));
  if (!f.settings_warnings.empty() || !f.number_errors.empty() || !f.unreadable.empty() ||
      !f.open_passfile.empty())
    return;
  std::string found = f.configured.config.empty() ? "they make sense" : f.configured.config + " makes sense";
  found +=
      "; database: " + (f.conninfo_shown.empty() ? "libpq's environment and defaults" : f.conninfo_shown);
  out.findings.push_back(ok("settings", found));
}

namespace {

std::string octal(unsigned mode) {
  std::string out;
  for (int shift = 9; shift >= 0; shift -= 3)
    out += static_cast<char>('0' + ((mode >> static_cast<unsigned>(shift)) & 7U));
  return out;
}

}  // namespace

void judge_socket(const doctor_facts& f, doctor_report& out) {
  const auto& s = f.socket;
  if (s.failure) {
    using kind = hub_failure::kind;
    const char* advice =
        "start the hub, or give --config /etc/pgwake/NAME.toml; without a hub workers use their own "
        "connections";
    if (s.failure->what == kind::denied)
      advice =
          s.exists && (s.mode & 0020U) == 0
              ? "run doctor as root; for workers of other users set socket_mode = \"0660\" and socket_group "
                "to a group of theirs, and restart the hub: this mode admits no group"
              : "run doctor as root or as a member of the socket's group; workers need to be members of it "
                "too";
    if (s.failure->what == kind::wrong_path)
      advice = "correct `socket`: hub and workers must name the same path";
    if (s.failure->what == kind::no_socket) advice = "ask again once it is back";
    if (s.failure->what == kind::refused) advice = "raise max_workers, or add this user to `allow`";
    if (s.failure->what == kind::silent || s.failure->what == kind::broken)
      advice =
          "look at the hub's log; a restart (systemctl restart pgwaked@NAME) is safe: workers announce a gap";
    return out.findings.push_back(fail("socket", s.failure->message, advice));
  }
  const std::string place = s.path + ", mode " + octal(s.mode) + ", owner " + s.owner + ", group " + s.group;
  if ((s.mode & 0002U) != 0 && f.configured.allow.empty())
    return out.findings.push_back(warn("socket",
                                       place + ": every user of this host may connect and read every channel",
                                       "set socket_mode to 0660 and socket_group to your workers' group, or "
                                       "list who may connect in `allow`"));
  out.findings.push_back(ok("socket", place));
}

void judge_unit(const doctor_facts& f, doctor_report& out) {
  if (!f.unit) return out.findings.push_back(ok("unit", "no systemd unit of this hub on this host"));
  const auto& u = *f.unit;
  std::string found = u.name + " is " + u.state;
  if (u.restarts > 0) found += ", restarted " + counted(u.restarts, "time");
  if (u.active && f.hub) return out.findings.push_back(ok("unit", found));
  if (!u.result.empty() && u.result != "success")
    found += ", result " + u.result + ", exit status " + u.exit_status;
  for (const auto& line : u.journal) found += "; " + line;
  const char* advice =
      u.active ? "it runs, and no hub answers at the socket: look at its log (journalctl -u pgwaked@NAME)"
               : "systemctl start it; systemctl enable it, so that it starts with the host";
  out.findings.push_back(f.hub ? warn("unit", found, "the hub that answers is not this unit's")
                               : fail("unit", found, advice));
}

void judge_hub(const doctor_facts& f, doctor_report& out) {
  if (!f.hub) return skip("hub", "no hub answers", out);
  const auto& h = *f.hub;
  const auto& s = h.status;
  std::string found = "version " + s.version + ", PID " + std::to_string(s.pid) + ", user " + h.user + ", " +
                      health_text(s) + ", " + counted(static_cast<std::int64_t>(s.totals.workers), "worker") +
                      ", " + counted(static_cast<std::int64_t>(s.totals.channels), "channel");
  if (s.draining)
    out.findings.push_back(warn("hub", found, "it is being stopped; ask again once it is back"));
  else if (!s.healthy)
    out.findings.push_back(fail(
        "hub", found,
        s.reason == "login"
            ? "see the checks below for what stands in the way; a password file or connection string that "
              "systemd hands over is a copy, made anew by a reload (systemctl reload)"
            : "see the checks below for what stands in the way; the hub keeps trying by itself"));
  else
    out.findings.push_back(ok("hub", found));
  if (s.version != f.version)
    out.findings.push_back(warn("hub",
                                "the hub that runs is version " + s.version + ", installed is " + f.version,
                                "restart the hub (systemctl restart pgwaked@NAME)"));
  if (f.session && s.healthy) {
    const bool same = f.session->system_id.empty() || s.upstream.system_id.empty() ||
                      f.session->system_id == s.upstream.system_id;
    if (!same && s.upstream.database == f.session->database && s.upstream.server == f.session->server)
      out.findings.push_back(
          fail("hub",
               s.upstream.server +
                   " is another server now than the one that the hub has its session with (system "
                   "identifiers " +
                   f.session->system_id + " and " + s.upstream.system_id +
                   "): its address changed, or it was replaced",
               "pgwaked control reconnect moves the hub, and its workers get a gap"));
    else if (!same || s.upstream.database != f.session->database)
      out.findings.push_back(
          fail("hub",
               "the hub serves database " + s.upstream.database + " at " + s.upstream.server +
                   ", but the settings lead to database " + f.session->database + " at " + f.session->server,
               "give doctor the hub's own connection string (--config FILE), or reload the hub"));
  }
  if (h.uid != 0 && h.uid != f.our_uid && h.user != f.hub_user)
    out.findings.push_back(warn("hub",
                                "the hub runs as user " + h.user +
                                    ", whom workers of other users do not trust (hub_user is " + f.hub_user +
                                    ")",
                                "run it as root or `" + f.hub_user + "`, or set PGWAKE_HUB_USER=" + h.user +
                                    " for the workers, and for doctor, which goes by its own environment"));
}

void judge_limits(const doctor_facts& f, doctor_report& out) {
  const auto wanted = f.configured.max_workers;
  const auto effective = f.hub && f.hub->status.max_workers > 0 ? f.hub->status.max_workers : wanted;
  const auto workers = f.hub ? f.hub->status.totals.workers : 0;
  const auto channels = f.hub ? f.hub->status.totals.channels : 0;
  const auto most_channels =
      f.hub && f.hub->status.max_channels > 0 ? f.hub->status.max_channels : f.configured.max_channels;
  const std::string found =
      (f.descriptors > 0 ? counted(static_cast<std::int64_t>(f.descriptors), "descriptor") + ", "
                         : std::string()) +
      grouped(workers) + " of " + grouped(effective) + " workers, " + grouped(channels) + " of " +
      grouped(most_channels) + " channels";
  if ((f.descriptors > 0 && f.descriptors < wanted + 32) || effective < wanted)
    out.findings.push_back(
        warn("limits", found + "; the descriptor limit leaves no room for max_workers = " + grouped(wanted),
             "raise it (LimitNOFILE= in the unit, ulimit -n), or lower max_workers"));
  else if (workers * 10 >= effective * 9)
    out.findings.push_back(warn("limits", found + "; further workers will soon be refused",
                                "raise max_workers (and the descriptor limit with it)"));
  else if (channels * 10 >= most_channels * 9)
    out.findings.push_back(
        warn("limits", found + "; further subscriptions will soon be refused",
             "raise max_channels, or use fewer channels with payloads that tell them apart"));
  else
    out.findings.push_back(ok("limits", found));
}

namespace {

// In the order of the chain. `connect` is none of them: it only ever fails, and then stands for
// those behind it.
constexpr std::array chain = {"settings", "socket",   "unit",   "hub",    "limits",     "name",   "tls",
                              "login",    "primary",  "pooler", "listen", "version",    "slots",  "queue",
                              "timeouts", "fallback", "clock",  "budget", "front_door", "drivers"};

// Each check is in one of the two lists: what was not found out is skipped, for its own reason or
// the general one.
void complete(const doctor_facts& f, doctor_report& out) {
  const char* general = hub_has_the_slot(f) ? "the role's CONNECTION LIMIT leaves doctor no session"
                        : f.session         ? "the server would not say"
                                            : "no session with the server";
  const auto reasons = std::exchange(out.skipped, {});
  for (const char* check : chain) {
    const auto same = [&](const auto& one) { return one.check == check; };
    if (std::any_of(out.findings.begin(), out.findings.end(), same)) continue;
    const auto own = std::find_if(reasons.begin(), reasons.end(), same);
    skip(check, own != reasons.end() ? own->why : general, out);
  }
}

}  // namespace

}  // namespace doctor

doctor_report judge(const doctor_facts& f) {
  using namespace doctor;
  doctor_report out;
  judge_settings(f, out);
  judge_socket(f, out);
  judge_unit(f, out);
  judge_hub(f, out);
  judge_limits(f, out);
  judge_servers(f, out);
  if (f.session)
    judge_session(f, *f.session, out);
  else if (hub_has_the_slot(f))
    judge_hubs_session(f, f.hub->status.upstream, out);
  judge_door(f, out);
  judge_drivers(f, out);
  complete(f, out);
  return out;
}

}  // namespace pgwaked
