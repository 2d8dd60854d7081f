#include <catch2/catch.hpp>

#include <rapidjson/document.h>

#include <algorithm>
#include <fstream>

#include "daemon/doctor/report.hpp"
#include "daemon/terminal/text.hpp"

using namespace pgwaked;
using facts = doctor_facts;

namespace {

// A host on which all is well.
facts healthy() {
  facts f;
  f.version = "0.1.0";
  f.this_host = "web1";
  f.descriptors = 20'000;
  f.user = "app";
  f.database = "shop";
  f.socket = {"/run/s", true, true, 0660, "pgwake", "www-data", std::nullopt};
  facts::hub_look hub;
  hub.uid = 104;
  hub.user = "pgwake";
  hub.status.upstream.user = "app";
  hub.status.version = "0.1.0";
  hub.status.healthy = true;
  hub.status.totals.workers = 8;
  hub.status.totals.channels = 12;
  hub.status.max_workers = 4096;
  hub.status.max_channels = 50'000;
  hub.status.upstream.database = "shop";
  hub.status.upstream.system_id = "7";
  hub.status.upstream.server = "db:5432";
  hub.status.upstream.server_version = 150'018;
  hub.status.upstream.queue_usage = 0.0;
  f.hub = hub;
  facts::server_look server;
  server.host = {"db", "", "5432"};
  server.addresses = {"10.0.0.1"};
  server.tls = {true, "TLSv1.3", "AES", 90 * 86'400};
  server.in_recovery = false;
  f.servers = {server};
  facts::session_look s;
  s.server = "db:5432";
  s.server_version = 150'018;
  s.database = "shop";
  s.system_id = "7";
  s.notify = facts::delivery::arrived;
  s.role = facts::role_look{};
  s.slots = facts::slots_look{100, 3, 20};
  s.queue_usage = 0.0;
  s.census = {{"web1", {1, 0}}, {"web2", {1, 3}}};
  s.clock_off_s = 0.01;
  f.session = s;
  return f;
}

const finding* find(const doctor_report& r, const std::string& check) {
  for (const auto& f : r.findings)
    if (f.check == check) return &f;
  return nullptr;
}

struct expectation {
  const char* check;
  verdict how;
  const char* says;
};

void expect(const facts& f, const expectation& e) {
  const auto r = judge(f);
  INFO(report_text(r, 100, false));
  // Of several findings of one check any may be the one.
  bool seen = false;
  for (const auto& one : r.findings) {
    if (one.check != e.check || one.how != e.how) continue;
    if ((one.found + one.advice).find(e.says) == std::string::npos) continue;
    seen = true;
    if (one.how != verdict::ok) CHECK_FALSE(one.advice.empty());
  }
  INFO(e.check << " " << to_string(e.how) << ": " << e.says);
  CHECK(seen);
  CHECK(r.worst() >= e.how);
}

facts without_session(pgwake::pg::query_failure why) {
  auto f = healthy();
  f.session.reset();
  f.servers[0].failure = std::move(why);
  f.servers[0].tls = {};
  f.servers[0].in_recovery.reset();
  return f;
}

constexpr auto ok = verdict::ok;
constexpr auto warning = verdict::warning;
constexpr auto failure = verdict::failure;

}  // namespace

TEST_CASE("doctor: a healthy host gets no warning") {
  const auto r = judge(healthy());
  INFO(report_text(r, 100, false));
  CHECK(r.worst() == ok);
  CHECK(r.skipped.empty());
  for (const char* check :
       {"settings", "socket", "hub", "limits", "name", "tls", "login", "primary", "pooler", "listen",
        "version", "slots", "queue", "timeouts", "fallback", "clock", "budget", "front_door", "drivers"}) {
    INFO(check);
    REQUIRE(find(r, check) != nullptr);
    CHECK(find(r, check)->advice.empty());
  }
  CHECK(report_text(r, 100, false).find("All good") != std::string::npos);
}

TEST_CASE("documents: docs/operate.md explains every check of doctor") {
  std::ifstream file(PGWAKE_SOURCE_DIR "/docs/operate.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE_FALSE(text.empty());
  auto r = judge(healthy());
  r.findings.push_back(*find(judge(without_session({"", "failed: Connection refused"})), "connect"));
  for (const auto& f : r.findings) {
    INFO(f.check);
    CHECK(text.find("| `" + f.check + "` |") != std::string::npos);
  }
}

TEST_CASE("doctor: settings") {
  auto f = healthy();
  f.settings_errors = {"heartbeat: nonsense", "max_workers: sense"};
  expect(f, {"settings", failure, "nonsense"});
  expect(f, {"settings", failure, "max_workers: sense"});
  f.number_errors = {"PGWAKE_FALLBACK_LIMIT=x: write a number"};
  expect(f, {"settings", failure, "nonsense"});
  expect(f, {"settings", failure, "PGWAKE_FALLBACK_LIMIT=x"});
  f.settings_errors.clear();
  for (const auto& one : judge(f).findings) {
    if (one.check != "settings") continue;
    CHECK(one.how == failure);
    CHECK(one.advice.find("pgwaked config") == std::string::npos);  // which does not show it
  }
  f = healthy();
  f.settings_warnings = {"database: a password on the command line; use a file instead"};
  expect(f, {"settings", warning, "command line"});
  CHECK(find(judge(f), "settings")->found == "database: a password on the command line");
  CHECK(find(judge(f), "settings")->advice == "use a file instead");
  f = healthy();
  f.target_fault = "invalid connection option \"hots\"";
  expect(f, {"settings", failure, "hots"});
}

TEST_CASE("doctor: the socket") {
  auto f = healthy();
  f.socket.mode = 0666;
  expect(f, {"socket", warning, "every user"});
  f.configured.allow.push_back({});
  CHECK(judge(f).worst() == ok);
  using kind = hub_failure::kind;
  for (const auto what : {kind::absent, kind::stale, kind::denied, kind::wrong_path, kind::refused,
                          kind::silent, kind::broken}) {
    f = healthy();
    f.hub.reset();
    f.socket.failure = hub_failure{what, "the words"};
    expect(f, {"socket", failure, "the words"});
    REQUIRE(judge(f).skipped.size() == 1);
    CHECK(judge(f).skipped[0].check == "hub");
  }
}

TEST_CASE("doctor: a group is advised only where the socket's mode admits one") {
  auto f = healthy();
  f.hub.reset();
  f.socket.failure = hub_failure{hub_failure::kind::denied, "the words"};
  for (const unsigned mode : {0600U, 0000U}) {
    f.socket.mode = mode;
    expect(f, {"socket", failure, "socket_mode = \"0660\""});
    CHECK(find(judge(f), "socket")->advice.find("member") == std::string::npos);
  }
  f.socket.mode = 0660;
  expect(f, {"socket", failure, "member of the socket's group"});
  f.socket = {"/run/s", false, false, 0, "", "", f.socket.failure};  // behind a closed directory
  expect(f, {"socket", failure, "member of the socket's group"});
}

TEST_CASE("doctor: the running hub") {
  auto f = healthy();
  f.hub->status.healthy = false;
  f.hub->status.reason = "pooler";
  expect(f, {"hub", failure, "pooler"});
  f.hub->status.draining = true;
  expect(f, {"hub", warning, "draining"});
  f = healthy();
  f.version = "0.2.0";
  expect(f, {"hub", warning, "restart"});
  f = healthy();
  f.session->system_id = "8";
  expect(f, {"hub", failure, "is another server now"});
  f = healthy();
  f.session->database = "other";
  expect(f, {"hub", failure, "other"});
  f = healthy();
  f.hub->uid = 33;
  f.hub->user = "www-data";
  expect(f, {"hub", warning, "PGWAKE_HUB_USER=www-data"});
  f.hub_user = "www-data";  // as advised
  CHECK(judge(f).worst() == ok);
  f.hub_user = "nobody";
  expect(f, {"hub", warning, "hub_user is nobody"});
}

TEST_CASE("doctor: limits") {
  auto f = healthy();
  f.descriptors = 1024;
  expect(f, {"limits", warning, "LimitNOFILE"});
  f = healthy();
  f.hub->status.max_workers = 900;
  expect(f, {"limits", warning, "max_workers"});
  f = healthy();
  f.hub->status.totals.workers = 4000;
  expect(f, {"limits", warning, "refused"});
  f = healthy();
  f.hub->status.totals.channels = 49'000;
  expect(f, {"limits", warning, "max_channels"});
}

TEST_CASE("doctor: names and network") {
  auto f = healthy();
  f.session.reset();
  f.servers[0].resolve_error = "Name or service not known";
  expect(f, {"name", failure, "cannot be resolved"});
  f = healthy();
  f.servers[0].resolve_ms = 3000;
  expect(f, {"name", warning, "3 s"});
  expect(without_session(
             {"",
              "connection to server at \"db\" (10.0.0.1), port 5432 failed: Connection refused Is the "
              "server running on that host?"}),
         {"connect", failure, "Connection refused"});
  expect(without_session({"", "no answer within 5000 ms", true}), {"connect", failure, "firewall"});
  expect(without_session({"57P03", "FATAL:  the database system is starting up"}),
         {"connect", failure, "starting up"});
}

TEST_CASE("doctor: TLS") {
  auto f =
      without_session({"", "connection to server at \"db\" failed: SSL error: certificate verify failed"});
  expect(f, {"tls", failure, "sslrootcert"});
  f.servers[0].tls = {true, "TLSv1.3", "AES", -3 * 86'400};
  expect(f, {"tls", failure, "expired 3 d ago"});
  expect(without_session({"", "failed: server certificate for \"a\" does not match host name \"db\""}),
         {"tls", failure, "does not match"});
  expect(without_session({"", "failed: server does not support SSL, but SSL was required"}),
         {"tls", failure, "no TLS"});
  f = healthy();
  f.servers[0].tls.expires_in_s = 5 * 86'400;
  expect(f, {"tls", warning, "expires in 5 d"});
  f.servers[0].tls.expires_in_s = -60;
  expect(f, {"tls", warning, "expired 1 min ago"});
  f.servers[0].tls = {};
  expect(f, {"tls", warning, "not encrypted"});
  for (const char* local : {"localhost", "127.0.0.1", "/run/postgresql"}) {
    f.servers[0].host.host = local;
    CHECK(judge(f).worst() == ok);
  }
}

TEST_CASE("doctor: login") {
  for (const char* state : {"28P01", "28000", "3D000", "42501"})
    expect(without_session({state, "failed: FATAL:  words of the server"}),
           {"login", failure, "words of the server"});
  expect(without_session({"28000", "failed: FATAL:  role \"root\" does not exist"}),
         {"login", failure, "CREATE ROLE"});
  expect(without_session({"28000", "failed: FATAL:  role \"a\" is not permitted to log in"}),
         {"login", failure, "LOGIN"});
  expect(without_session({"", "failed: fe_sendauth: no password supplied"}), {"login", failure, "passfile"});
}

TEST_CASE("doctor: slots") {
  expect(without_session({"53300", "failed: FATAL:  sorry, too many clients already"}),
         {"slots", failure, "max_connections"});
  const pgwake::pg::query_failure of_role{"53300", "failed: FATAL:  too many connections for role \"app\""};
  auto f = without_session(of_role);
  f.hub->status.upstream.database = "another";  // so the hub may hold none of these
  expect(f, {"slots", warning, "running hub"});
  f = without_session(of_role);
  f.hub->status.upstream.user = "hub";
  expect(f, {"slots", warning, "too many connections for role"});
  CHECK(find(judge(f), "login") == nullptr);
  f.hub->status.upstream.user.reset();
  expect(f, {"slots", warning, "too many connections for role"});
  f.hub.reset();
  expect(f, {"slots", failure, "CONNECTION LIMIT"});
  f = healthy();
  f.session->slots = facts::slots_look{100, 3, 97};
  expect(f, {"slots", warning, "0 free"});
  f.hub.reset();
  expect(f, {"slots", failure, "0 free"});
  f = healthy();
  f.session->slots = facts::slots_look{100, 3, 94};
  expect(f, {"slots", warning, "3 free"});
  f = healthy();
  f.session->role = facts::role_look{"app", false, 5, 5, -1, 0};
  expect(f, {"slots", warning, "may have 5 and has 5"});
}

TEST_CASE("U8: doctor: a CONNECTION LIMIT that the healthy hub uses up is no trouble; the rest is skipped") {
  auto f = without_session({"53300", "failed: FATAL:  too many connections for role \"app\""});
  const auto r = judge(f);
  INFO(report_text(r, 100, false));
  CHECK(r.worst() == ok);
  for (const char* check : {"login", "primary", "pooler", "version", "slots", "queue"}) {
    INFO(check);
    REQUIRE(find(r, check) != nullptr);
    CHECK(find(r, check)->how == ok);
  }
  CHECK(report_text(r, 100, false).find("All good, as far") != std::string::npos);
  std::string skipped;
  for (const auto& s : r.skipped) {
    skipped += s.check + " ";
    CHECK(s.why == "the role's CONNECTION LIMIT leaves doctor no session");
  }
  CHECK(skipped == "tls listen timeouts fallback clock budget ");
  f.hub->status.upstream.queue_usage = 0.5;  // what the hub sees is judged as what doctor sees
  expect(f, {"queue", warning, "50 %"});
  f.hub->status.healthy = false;
  expect(f, {"slots", failure, "CONNECTION LIMIT"});
}

TEST_CASE("doctor: each check was made or skipped, never both") {
  auto standby = healthy();
  standby.servers[0].in_recovery = true;
  standby.session->notify.reset();
  auto mute = healthy();
  mute.session->slots.reset();
  mute.session->census.reset();
  mute.session->queue_usage.reset();
  mute.session->clock_off_s.reset();
  auto unreadable = healthy();
  unreadable.settings_errors = {"x"};
  unreadable.servers.clear();
  unreadable.session.reset();
  unreadable.hub.reset();
  auto local = healthy();
  local.servers[0].host = {"/run/postgresql", "", "5432"};
  for (const auto& f :
       {healthy(), standby, mute, unreadable, local, without_session({"", "failed: Connection refused"}),
        without_session({"28P01", "failed: FATAL:  password"}),
        without_session({"53300", "failed: FATAL:  sorry, too many clients already"}),
        without_session({"53300", "failed: FATAL:  too many connections for role \"app\""})}) {
    const auto r = judge(f);
    INFO(report_text(r, 100, false));
    for (const char* check :
         {"settings", "socket", "hub", "limits", "name", "tls", "login", "primary", "pooler", "listen",
          "version", "slots", "queue", "timeouts", "fallback", "clock", "budget", "front_door", "drivers"}) {
      INFO(check);
      const auto times =
          std::count_if(r.skipped.begin(), r.skipped.end(), [&](const auto& s) { return s.check == check; });
      CHECK(times == (find(r, check) == nullptr ? 1 : 0));
    }
    for (const auto& s : r.skipped) CHECK_FALSE(s.why.empty());
  }
  CHECK(judge(mute).skipped[0].why == "the server would not say");
  CHECK(judge(standby).skipped[0].why == "a standby does not take it");
}

TEST_CASE("doctor: primary, and several hosts") {
  auto f = healthy();
  f.servers[0].in_recovery = true;
  expect(f, {"primary", failure, "only standbys"});
  f = healthy();
  auto dead = without_session({"", "failed: Connection refused"}).servers[0];
  f.servers.push_back(dead);
  const auto r = judge(f);
  CHECK(r.worst() == warning);
  CHECK(find(r, "connect")->how == warning);
}

TEST_CASE("doctor: poolers") {
  auto f = healthy();
  f.session->pooler = facts::pooling::transaction;
  f.session->notify.reset();
  expect(f, {"pooler", failure, "transaction"});
  f.session->pooler = facts::pooling::session;
  expect(f, {"pooler", failure, "allow_session_pooler"});
  f.session->notify = facts::delivery::arrived;
  f.configured.allow_session_pooler = true;
  expect(f, {"pooler", ok, "session mode"});
  CHECK(judge(f).worst() == ok);
}

TEST_CASE("doctor: the front door, as a driver finds it") {
  auto f = healthy();
  expect(f, {"front_door", ok, "off"});
  auto unread = f;
  unread.settings_errors = {"no such file"};
  CHECK(find(judge(unread), "front_door") == nullptr);
  f.configured.front_door = true;
  const auto unseen = judge(f);
  CHECK(find(unseen, "front_door") == nullptr);
  REQUIRE(unseen.skipped.size() == 2);
  CHECK(unseen.skipped[0].check == "front_door");
  CHECK(unseen.skipped[1].check == "drivers");
  f.hub->status.healthy = false;
  CHECK(judge(f).skipped[0].why == "the hub has no session with the server");
  f = healthy();
  f.configured.front_door = true;
  f.door = doctor_facts::door_look{};
  auto& door = *f.door;
  door.folder = "/run/pgwake/shop";
  door.port = "5432";
  door.failure = {"", "No such file or directory"};
  expect(f, {"front_door", failure, "No such file or directory"});
  expect(f, {"front_door", failure, "restart the hub"});
  door.failure = {"28000", "the hub does not admit user 7"};
  expect(f, {"front_door", warning, "`allow`"});
  door.failure = {"57P03", "the hub is full"};
  expect(f, {"front_door", warning, "max_workers"});
  door.connected = true;
  door.failure = {"42501", "permission denied"};
  expect(f, {"front_door", ok, "gives this user no channel"});
  door.failure = {"XX000", "out of memory"};
  expect(f, {"front_door", failure, "LISTEN fails at host=/run/pgwake/shop port=5432: out of memory"});
  door.failure.reset();
  expect(f, {"front_door", failure, "did not arrive"});
  door.not_published = "NOTIFY fails: it is a standby";
  expect(f, {"front_door", ok, "it is a standby"});
  door.not_published.clear();
  door.arrived = true;
  expect(f, {"front_door", ok, "arrived at host=/run/pgwake/shop port=5432"});
  CHECK(judge(f).worst() == ok);
}

TEST_CASE("doctor: drivers that LISTEN at the server although the front door is there") {
  auto f = healthy();
  f.session->direct_listeners.emplace();
  expect(f, {"drivers", ok, "the front door is off"});
  f.configured.front_door = true;
  f.door = doctor_facts::door_look{};
  f.door->connected = f.door->arrived = true;
  expect(f, {"drivers", ok, "no driver of this host is seen to LISTEN"});
  f.session->hidden_sessions = 3;
  expect(f, {"drivers", ok, "what 3 sessions of other roles said last is not shown"});
  CHECK(judge(f).worst() == ok);
  f.session->direct_listeners = {{"", 1}, {"pu\x1b[31mma", 2}, {"jobs", 1}};
  f.hub->status.workers.resize(3);
  for (auto& w : f.hub->status.workers) w.dialect = "pg";
  f.hub->status.workers[0].name = "jobs";
  f.hub->status.workers[1].name = "jobs";
  f.hub->status.workers[1].dialect = "v1";
  expect(f, {"drivers", warning,
             "4 sessions of this host LISTEN at the database itself: 1 without application_name"});
  expect(f, {"drivers", warning, "1 jobs (1 of that name at the front door), 2 pu"});
  expect(f, {"drivers", warning, "restart what has this name"});
  CHECK(find(judge(f), "drivers")->found.find('\x1b') == std::string::npos);
  f.door->connected = false;
  f.door->failure = {"", "No such file or directory"};
  expect(f, {"drivers", warning, "see front_door first"});
  for (char c = 'a'; c < 'h'; ++c) f.session->direct_listeners->emplace(std::string("x") + c, 1);
  expect(f, {"drivers", warning, "5 more names"});
  f.session->pooler = facts::pooling::session;
  CHECK(find(judge(f), "drivers") == nullptr);
  f.session->pooler = facts::pooling::none;
  f.session->direct_listeners.reset();
  CHECK(find(judge(f), "drivers") == nullptr);
}

TEST_CASE("doctor: delivery, version, queue, timeouts, clock") {
  auto f = healthy();
  f.session->notify = facts::delivery::lost;
  expect(f, {"listen", failure, "did not arrive"});
  f.session->notify = facts::delivery::commit_waits;
  expect(f, {"listen", warning, "synchronous"});
  f.session->notify = facts::delivery::failed;
  expect(f, {"listen", failure, "fails"});
  f = healthy();
  f.session->server_version = 110'022;
  expect(f, {"version", warning, "11.22"});
  f = healthy();
  f.session->queue_usage = 0.021;
  CHECK(judge(f).worst() == ok);
  f.queue_threshold = 0.02;
  f.session->oldest = facts::transaction_look{412, "cron", "idle in transaction", 3600};
  expect(f, {"queue", warning, "PID 412 (cron), idle in transaction, in a transaction for 1 h"});
  f.session->queue_usage = 0.8;
  expect(f, {"queue", failure, "80 %"});
  f = healthy();
  f.session->settings["idle_session_timeout"] = {"60000", "user"};
  expect(f, {"timeouts", warning, "idle_session_timeout = 60000 ms (user)"});
  f = healthy();
  f.session->settings["idle_session_timeout"] = {"0", "default"};
  f.session->settings["statement_timeout"] = {"30000", "database"};
  expect(f, {"timeouts", ok, "statement_timeout"});
  CHECK(judge(f).worst() == ok);
  f.session->clock_off_s = -90;
  expect(f, {"clock", warning, "90 s behind"});
}

TEST_CASE("doctor: workers on fallback and the connection budget") {
  auto f = healthy();
  (*f.session->census)["web1"].fallbacks = 2;
  expect(f, {"fallback", warning, "2 workers"});
  (*f.session->census)["web1"] = {2, 0};
  expect(f, {"fallback", warning, "2 hubs"});

  f = healthy();
  auto b = judge(f).budget.value();
  CHECK(b.here_now == 1);
  CHECK(b.here_worst == 9);
  CHECK(b.server_now == 5);
  CHECK(b.free == 77);
  f.fallback_limit = 3;
  CHECK(judge(f).budget->here_worst == 4);
  f.hub->status.totals.workers = 200;
  CHECK(judge(f).worst() == ok);
  f.fallback_limit.reset();
  expect(f, {"budget", warning, "PGWAKE_FALLBACK_LIMIT"});
  f.hub.reset();
  f.session->census->clear();
  CHECK(judge(f).budget->here_worst == 0);
}

TEST_CASE("doctor: text and JSON say the same, and nothing that a terminal would obey") {
  auto f = healthy();
  f.session->oldest = facts::transaction_look{1, "\x1b[2J", "idle", 1};
  f.session->queue_usage = 0.5;
  const auto r = judge(f);
  const auto text = report_text(r, 80, false);
  CHECK(text.find('\x1b') == std::string::npos);
  for (std::size_t from = 0; from < text.size();) {
    const auto end = text.find('\n', from);
    CHECK(columns_of(text.substr(from, end - from)) <= 80);
    from = end + 1;
  }
  rapidjson::Document doc;
  doc.Parse(report_json(r).c_str());
  REQUIRE(doc.IsObject());
  CHECK(std::string(doc["verdict"].GetString()) == "warning");
  CHECK(doc["checks"].Size() == r.findings.size());
  CHECK(doc["checks"][0]["advice"].IsNull());
  CHECK(doc["budget"]["max_connections"].GetInt() == 100);
  CHECK(doc["budget"]["fallback_limit"].IsNull());
  CHECK(doc["budget"]["by_host"].Size() == 2);
  f.session.reset();
  f.hub.reset();
  doc.Parse(report_json(judge(f)).c_str());
  CHECK(doc["budget"].IsNull());
  CHECK(doc["skipped"].Size() > 5);
  for (const auto& check : doc["skipped"].GetArray())
    CHECK(std::string(doc["skipped_because"][check.GetString()].GetString()).size() > 5);
}

TEST_CASE("doctor: a file that the hub's user cannot read, and a passfile that libpq ignores") {
  auto f = healthy();
  f.unreadable = {{"/etc/pgwake/shop.toml", "pgwake", "Permission denied"}};
  expect(f, {"settings", failure, "cannot be read by the hub's user pgwake: Permission denied"});
  f = healthy();
  f.open_passfile = "/etc/pgwake/pass";
  expect(f, {"settings", warning, "libpq ignores it"});
}

TEST_CASE("doctor: the unit that does not run is told with what its journal says last") {
  auto f = healthy();
  f.unit =
      facts::unit_look{"pgwaked@shop.service", "active (running)", "success", "0", "pgwake", true, 0, {}};
  expect(f, {"unit", ok, "pgwaked@shop.service is active (running)"});
  f.unit = facts::unit_look{"pgwaked@shop.service", "failed (failed)", "exit-code", "2", "pgwake", false, 5,
                            {"heartbeat: nonsense"}};
  expect(f, {"unit", warning, "the hub that answers is not this unit's"});
  f.hub.reset();
  expect(f, {"unit", failure, "restarted 5 times, result exit-code, exit status 2; heartbeat: nonsense"});
}

TEST_CASE("doctor: another server behind the same name is told as what it is") {
  auto f = healthy();
  f.session->system_id = "8";
  expect(f, {"hub", failure, "db:5432 is another server now"});
  f.session->server = "elsewhere:5432";
  expect(f, {"hub", failure, "the hub serves database shop at db:5432"});
}

TEST_CASE("doctor: limits says nothing of descriptors that cannot be seen") {
  auto f = healthy();
  f.descriptors = 0;
  expect(f, {"limits", ok, "8 of 4,096 workers"});
}

TEST_CASE("doctor: pgwake's own fallbacks are named among the holders of the slots") {
  auto f = healthy();
  f.session->slots = facts::slots_look{100, 3, 97};
  expect(f, {"slots", warning, "3 connections of them pgwake's own fallbacks"});
  expect(f, {"slots", warning, "pg_use_reserved_connections"});
}
