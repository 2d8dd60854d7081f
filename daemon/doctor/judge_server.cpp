// doctor's checks of the way to a server: names, network, TLS, login, primary.
#include <algorithm>

#include "daemon/doctor/checks.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked::doctor {
namespace {

using server = doctor_facts::server_look;
using pgwake::pg::query_failure;

constexpr std::int64_t slow_resolve_ms = 1'000;
constexpr std::int64_t day_s = 86'400;
constexpr std::int64_t certificate_warning_s = 14 * day_s;

std::string place(const pgwake::pg::host_entry& h) {
  const auto& name = h.host.empty() ? h.hostaddr : h.host;
  return h.is_directory() ? name + " (port " + h.port + ")" : name + ":" + h.port;
}

bool mentions(const std::string& text, const char* words) { return text.find(words) != text.npos; }

std::string after_prefix(const std::string& message) {
  // libpq: `connection to server at "h" (a), port p failed: WORDS`
  // and, after `Connection refused`, a question that our advice asks too.
  auto out = message;
  if (const auto at = out.find(" failed: "); at != out.npos) out.erase(0, at + 9);
  if (const auto at = out.find(" Is the server running "); at != out.npos) out.resize(at);
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string days(std::int64_t seconds) {
  return short_duration(std::chrono::seconds(seconds < 0 ? -seconds : seconds));
}

void judge_names(const server& s, doctor_report& out) {
  if (s.host.is_directory())
    return out.findings.push_back(ok("name", s.host.host + " is a directory of sockets: no name to resolve"));
  const auto& name = s.host.host.empty() ? s.host.hostaddr : s.host.host;
  std::string list;
  for (const auto& a : s.addresses) list += (list.empty() ? "" : ", ") + a;
  if (!s.resolve_error.empty())
    out.findings.push_back(fail("name", name + " cannot be resolved: " + s.resolve_error,
                                "correct the host name, or the DNS or /etc/hosts of this machine"));
  else if (s.resolve_ms >= slow_resolve_ms)
    out.findings.push_back(warn(
        "name", name + " took " + number(static_cast<double>(s.resolve_ms) / 1000) + " s to resolve: " + list,
        "look at /etc/resolv.conf: every reconnect waits for it"));
  else
    out.findings.push_back(ok("name", name == list ? name : name + " is " + list));
}

// True if the failure is one of TLS.
bool judge_tls_failure(const doctor_facts& f, const server& s, doctor_report& out) {
  const auto& words = s.failure->message;
  const bool expired = s.tls.expires_in_s && *s.tls.expires_in_s <= 0;
  if (mentions(words, "certificate verify failed") || mentions(words, "certificate has expired")) {
    if (expired)
      out.findings.push_back(fail(
          "tls", place(s.host) + ": the server's certificate expired " + days(*s.tls.expires_in_s) + " ago",
          "renew the certificate on the server and reload PostgreSQL"));
    else
      out.findings.push_back(
          fail("tls", place(s.host) + ": the server's certificate cannot be verified: " + after_prefix(words),
               "sslrootcert must name the CA that signed it; look at the server's clock too"));
    return true;
  }
  if (mentions(words, "does not match host name")) {
    out.findings.push_back(fail("tls", place(s.host) + ": " + after_prefix(words),
                                "connect by a name that the certificate holds, or use sslmode=verify-ca"));
    return true;
  }
  if (mentions(words, "does not support SSL")) {
    out.findings.push_back(
        fail("tls", place(s.host) + ": the server has no TLS, and sslmode=" + f.sslmode + " demands it",
             "set ssl = on at the server, or use sslmode=prefer on a network you trust"));
    return true;
  }
  if (mentions(words, "SSL error") || mentions(words, "root certificate file") ||
      mentions(words, "certificate file")) {
    out.findings.push_back(fail("tls", place(s.host) + ": " + after_prefix(words),
                                "correct sslmode, sslrootcert, sslcert and sslkey in the connection string"));
    return true;
  }
  return false;
}

void judge_tls(const server& s, doctor_report& out) {
  if (!s.tls.in_use) {
    const auto& name = s.host.host;
    const bool local = s.host.is_directory() || name == "localhost" || name.starts_with("127.") ||
                       name == "::1" || s.host.hostaddr.starts_with("127.");
    if (local) return out.findings.push_back(ok("tls", place(s.host) + ": not used, on this host"));
    return out.findings.push_back(
        warn("tls", place(s.host) + ": the connection is not encrypted",
             "set ssl = on at the server and sslmode=verify-full here, unless the network is yours alone"));
  }
  const std::string found = place(s.host) + ": " + s.tls.protocol + ", " + s.tls.cipher;
  if (s.tls.expires_in_s && *s.tls.expires_in_s <= 0)
    return out.findings.push_back(warn("tls",
                                       found + "; the server's certificate expired " +
                                           days(*s.tls.expires_in_s) + " ago (not verified here: sslmode)",
                                       "renew the certificate on the server and reload PostgreSQL"));
  if (s.tls.expires_in_s && *s.tls.expires_in_s < certificate_warning_s)
    return out.findings.push_back(
        warn("tls", found + "; the server's certificate expires in " + days(*s.tls.expires_in_s),
             "renew the certificate on the server and reload PostgreSQL"));
  out.findings.push_back(ok("tls", found));
}

finding login_ok(const doctor_facts& f, const server& s) {
  return ok("login", place(s.host) + ": user " + f.user + ", database " + f.database);
}

bool has_the_slot(const doctor_facts& f, const server& s) {
  if (!f.hub || !f.hub->status.healthy || !s.failure) return false;
  if (s.failure->sqlstate != "53300" || !mentions(s.failure->message, "for role")) return false;
  if (f.hub->status.upstream.user != f.user) return false;
  const auto& name = s.host.host.empty() ? s.host.hostaddr : s.host.host;
  const auto& up = f.hub->status.upstream;
  return up.server == name + ":" + s.host.port && up.database == f.database;
}

// One failed connect, by SQLSTATE where the server gave one.
finding connect_finding(const doctor_facts& f, const server& s) {
  const auto& e = *s.failure;
  const auto at = place(s.host);
  const auto words = after_prefix(e.message);
  const auto login = [&](const char* advice) { return fail("login", at + ": " + words, advice); };
  if (e.sqlstate == "53300") {
    if (has_the_slot(f, s))
      return ok("slots", at + ": the role's CONNECTION LIMIT is used up, and the running hub has the one it "
                              "needs; fallbacks of this role get none");
    const bool of_role = mentions(words, "for role") || mentions(words, "for database");
    const bool hub_lives = f.hub && f.hub->status.healthy;
    if (of_role && hub_lives)
      return warn(
          "slots", at + ": " + words + "; the running hub holds the connection it needs",
          "nothing for the hub; for fallbacks and doctor raise the CONNECTION LIMIT by as many as there "
          "are workers");
    return fail("slots", at + ": every connection slot is taken: " + words,
                of_role ? "raise the role's or the database's CONNECTION LIMIT"
                        : "raise max_connections, or find who holds them (SELECT usename, application_name, "
                          "pg_catalog.count(*) FROM pg_catalog.pg_stat_activity GROUP BY 1, 2 as superuser; "
                          "pgwake-fallback@HOST are workers of pgwake: start their hub, or set "
                          "fallback_limit); neither hub "
                          "nor fallbacks get one. For the hub's role pg_use_reserved_connections (PostgreSQL "
                          "16) keeps one");
  }
  if (e.sqlstate == "28P01")
    return login(
        "the password is wrong, or there is no such role, or it has none (the server tells these apart in "
        "its own log alone): correct it in the connection string, the passfile or database_file, or CREATE "
        "ROLE, ALTER ROLE ... PASSWORD");
  if (e.sqlstate == "28000" && mentions(words, "does not exist"))
    return login("CREATE ROLE, or name another user: in `database`, or with --config the hub's settings");
  if (e.sqlstate == "28000" && mentions(words, "not permitted to log in"))
    return login("ALTER ROLE ... LOGIN, or name another user in `database`");
  if (e.sqlstate == "28000")
    return login(
        "allow it in the server's pg_hba.conf (user, database, this host's address, TLS) and reload");
  if (e.sqlstate == "3D000") return login("create the database, or correct dbname");
  if (e.sqlstate == "42501") return login("GRANT CONNECT ON DATABASE to the role");
  if (e.sqlstate == "57P03")
    return fail("connect", at + ": " + words,
                "wait until the server has started; a standby needs hot_standby = on");
  if (mentions(words, "no password supplied"))
    return login(
        "give a password: in a passfile (/etc/pgwake/NAME.pgpass, which doctor reads as root with --config "
        "/etc/pgwake/NAME.toml), database_file, PGPASSWORD or the connection string");
  if (mentions(words, "no pg_hba.conf entry") || mentions(words, "no such user") ||
      mentions(words, "auth failed"))
    return login(
        "allow this user, database and address in the server's or pooler's own user list and pg_hba.conf");
  if (!e.sqlstate.empty()) return login("the server refuses the session for this reason");
  if (mentions(words, "could not open certificate") || mentions(words, "private key"))
    return fail("tls", at + ": " + words, "correct sslcert and sslkey in the connection string");
  if (e.timed_out)
    return fail("connect", at + ": " + e.message,
                "is it the right host and port? This is how a firewall that drops packets looks, or a "
                "server that hangs");
  return fail("connect", at + ": " + words,
              "is PostgreSQL running there, listening on that address (listen_addresses) and port?");
}

}  // namespace

bool hub_has_the_slot(const doctor_facts& f) {
  return !f.session &&
         std::any_of(f.servers.begin(), f.servers.end(), [&](const server& s) { return has_the_slot(f, s); });
}

void judge_servers(const doctor_facts& f, doctor_report& out) {
  std::string standbys;
  bool primary = false;
  bool any = false;
  for (const auto& s : f.servers) {
    judge_names(s, out);
    if (!s.resolve_error.empty()) continue;
    if (s.failure) {
      auto one = doctor_report{};
      if (!judge_tls_failure(f, s, one)) one.findings.push_back(connect_finding(f, s));
      // The limit is looked at behind the password.
      if (has_the_slot(f, s)) one.findings.push_back(login_ok(f, s));
      out.findings.insert(out.findings.end(), one.findings.begin(), one.findings.end());
      continue;
    }
    any = true;
    judge_tls(s, out);
    out.findings.push_back(login_ok(f, s));
    if (s.in_recovery.value_or(false))
      standbys += (standbys.empty() ? "" : ", ") + place(s.host);
    else
      primary = true;
  }
  // Where one host of several serves, the others' troubles are no failure of the chain.
  if (primary)
    for (auto& one : out.findings)
      if (one.how == verdict::failure && (one.check == "connect" || one.check == "name" ||
                                          one.check == "login" || one.check == "tls" || one.check == "slots"))
        one.how = verdict::warning;
  if (!any) return;
  if (primary)
    out.findings.push_back(
        ok("primary", standbys.empty() ? "a primary answers" : "a primary answers; standby: " + standbys));
  else
    out.findings.push_back(fail("primary",
                                "only standbys answer (" + standbys + "): LISTEN works on a primary alone",
                                "name the primary in `database`, or all hosts of the cluster (host=a,b)"));
}

}  // namespace pgwaked::doctor
