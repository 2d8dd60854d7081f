#include <libpq-fe.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "integration/rig.hpp"

// The front door as libpq sees it, which is itself in most drivers.
using namespace pgwake::test;

namespace {

rig_options open_door(std::vector<std::string> more = {}) {
  more.emplace_back("--front-door");
  return {.arguments = std::move(more)};
}

std::string folder_of(rig& r) { return r.hub().socket().substr(0, r.hub().socket().rfind('/')); }

std::string door(rig& r, const std::string& more = {}) {
  return "host=" + folder_of(r) + " port=5432 user=app dbname=" + r.database() + " " + more;
}

std::string sqlstate(connection& c, const std::string& sql) {
  try {
    c.exec(sql);
  } catch (const sql_error& e) {
    return e.sqlstate;
  }
  return "";
}

// How a connection ended: the message of its FATAL, which libpq takes for a notice while it is idle.
std::string last_words(connection& c, milliseconds patience = 10s) {
  std::string words;
  PQsetNoticeProcessor(
      c.raw(), [](void* into, const char* text) { *static_cast<std::string*>(into) += text; }, &words);
  eventually(patience, [&] {
    try {
      return c.next_notification(10ms), false;
    } catch (const sql_error&) {
      return true;
    }
  });
  PQsetNoticeProcessor(
      c.raw(), [](void*, const char*) {}, nullptr);
  return words;
}

std::string refused(const std::string& conninfo) {
  try {
    const connection c(conninfo);
  } catch (const sql_error& e) {
    return e.what();
  }
  return "connected";
}

void expect_payload(connection& c, const std::string& payload) {
  const auto got = c.next_notification(10s);
  REQUIRE(got);
  CHECK(got->payload == payload);
}

bool says(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

}  // namespace

TEST_CASE("P1: the front door is a socket beside the hub's, with its mode, and none without the setting") {
  rig r(open_door({"--socket-mode", "0600"}));
  struct stat info {};
  REQUIRE(stat((folder_of(r) + "/.s.PGSQL.5432").c_str(), &info) == 0);
  CHECK(S_ISSOCK(info.st_mode));
  CHECK((info.st_mode & 0777) == 0600);
  REQUIRE(r.hub().stop());
  CHECK(stat((folder_of(r) + "/.s.PGSQL.5432").c_str(), &info) != 0);
  rig closed;
  CHECK(stat((folder_of(closed) + "/.s.PGSQL.5432").c_str(), &info) != 0);
  rig elsewhere(open_door({"--front-door-dir", folder_of(closed), "--front-door-port", "6000"}));
  CHECK(stat((folder_of(closed) + "/.s.PGSQL.6000").c_str(), &info) == 0);
}

TEST_CASE(
    "P5: libpq finds the server's version, its database and its user, and pg_isready that it is served") {
  rig r(open_door());
  CHECK(PQping(door(r).c_str()) == PQPING_OK);
  connection c(door(r, "application_name=job"));
  CHECK(PQserverVersion(c.raw()) == std::stoi(r.pg().value("SHOW server_version_num")));
  CHECK(c.value("SHOW server_version") ==
        r.pg().value("SHOW server_version").substr(0, c.value("SHOW server_version").size()));
  CHECK(c.value("SELECT current_database()") == r.database());
  CHECK(c.value("SELECT current_user") == "app");
  CHECK(c.value("SHOW application_name") == "job");
  CHECK(c.backend_pid() >= 1 << 30);
  CHECK(std::stoi(c.value("SELECT pg_backend_pid()")) == c.backend_pid());
  CHECK(connection(door(r)).backend_pid() != c.backend_pid());
  CHECK(connection(door(r, "target_session_attrs=read-write")).usable());
}

TEST_CASE("P3: another database is refused, and who may not connect") {
  rig r(open_door());
  CHECK(says(refused("host=" + folder_of(r) + " port=5432 user=app dbname=other"), "is not served here"));
  auto options = open_door({"--allow", "uid:12345"});
  options.until = readiness::none;  // it admits nobody who could ask
  rig strict(options);
  REQUIRE_EVENTUALLY(says(refused(door(strict)), "does not admit"), 10s);
}

TEST_CASE(
    "P8, P12: what is listened to arrives, in order, with the notifier's process ID and the raw payload") {
  rig r(open_door());
  connection a(door(r));
  connection b(door(r));
  a.exec("LISTEN jobs; LISTEN \"Other\"");
  b.exec("LISTEN jobs");
  auto publisher = r.publisher();
  publisher.exec("BEGIN");
  for (int i = 0; i < 1'000; ++i) publisher.notify(i % 10 == 9 ? "Other" : "jobs", std::to_string(i));
  publisher.exec("COMMIT");
  for (int i = 0; i < 1'000; ++i) {
    const auto got = a.next_notification(10s);
    REQUIRE(got);
    REQUIRE(got->payload == std::to_string(i));
    REQUIRE(got->channel == (i % 10 == 9 ? "Other" : "jobs"));
    REQUIRE(got->pid == publisher.backend_pid());
    if (i % 10 != 9) expect_payload(b, std::to_string(i));
  }
  a.exec("UNLISTEN jobs");
  r.notify("jobs", "unheard");
  r.notify("Other");
  expect_payload(a, "");
  r.notify("Other", "\xC3\xA9\n\"");
  expect_payload(a, "\xC3\xA9\n\"");
  CHECK(r.census() == 1);
}

TEST_CASE("P9, P15: what is no LISTEN is refused whole, and the session goes on") {
  rig r(open_door({"--allow", "* jobs*"}));
  connection c(door(r));
  CHECK(sqlstate(c, "NOTIFY jobs") == "0A000");
  CHECK(sqlstate(c, "SELECT * FROM pg_class") == "0A000");
  CHECK(sqlstate(c, "LISTEN jobs; SELECT 1/0") == "0A000");
  CHECK(sqlstate(c, "LISTEN jobs; LISTEN other") == "42501");
  CHECK(sqlstate(c, "LISTEN \"pgwake.fence\"") == "42501");
  CHECK(sqlstate(c, "LISTEN select") == "42601");
  CHECK(c.exec("SELECT * FROM pg_listening_channels()").empty());
  c.exec("LISTEN jobs2");
  r.notify("jobs");
  r.notify("jobs2", "x");
  expect_payload(c, "x");
}

TEST_CASE("P10, P12: in a transaction LISTEN waits for COMMIT, and so do notifications") {
  rig r(open_door());
  connection c(door(r));
  auto watcher = r.worker();
  watcher.subscribe("a");
  c.exec("BEGIN; LISTEN a; COMMIT");
  c.exec("BEGIN");
  r.notify("a", "held");
  watcher.expect_wake("a", "held");
  CHECK(c.value("SELECT 1") == "1");
  CHECK_FALSE(c.next_notification(50ms));
  c.exec("COMMIT");
  expect_payload(c, "held");
  c.exec("BEGIN; UNLISTEN *; ROLLBACK");
  r.notify("a", "still");
  expect_payload(c, "still");
}

TEST_CASE("P13: after an outage who listens is closed once all is active again, and can come back at once") {
  rig r(open_door());
  connection c(door(r));
  connection told(door(r));
  c.exec("LISTEN a");
  told.exec("LISTEN a; LISTEN \"pgwake.gap\"");
  REQUIRE(r.terminate());
  const auto words = last_words(c);
  CHECK(says(words, "may have been missed"));
  connection again(door(r));
  again.exec("LISTEN a");
  r.notify("a", "new");
  const auto gap = told.next_notification(10s);
  REQUIRE(gap);
  CHECK(gap->channel == "pgwake.gap");
  CHECK(gap->payload == "reconnect");
  expect_payload(told, "new");
  expect_payload(again, "new");
}

TEST_CASE("P14: who listens to nothing survives gaps, whatever it listened to before") {
  rig r(open_door({"--unlisten-linger", "0s"}));
  connection fresh(door(r));
  connection former(door(r));
  connection undecided(door(r));
  connection listening(door(r));
  former.exec("LISTEN a; UNLISTEN a");
  undecided.exec("BEGIN; LISTEN a; ROLLBACK");
  listening.exec("LISTEN b");
  REQUIRE(r.terminate());
  CHECK(says(last_words(listening), "may have been missed"));
  for (auto* c : {&fresh, &former, &undecided}) {
    const auto pid = c->backend_pid();
    CHECK(c->value("SELECT pg_backend_pid()") == std::to_string(pid));
    c->exec("LISTEN a");
  }
  r.notify("a", "new");
  for (auto* c : {&fresh, &former, &undecided}) expect_payload(*c, "new");
}

TEST_CASE("P7: nothing that a client sends reaches the server but channel names, quoted") {
  auto options = open_door();
  options.through_proxy = true;
  rig r(options);
  r.proxy().forget_queries();
  connection c("host=" + folder_of(r) + " port=5432 user=mark_user dbname=" + r.database() +
               " application_name=mark_app options='-c search_path=mark_path'");
  c.exec("LISTEN \"a\"\"; SELECT 'mark_in_name'; --\"");
  c.exec("SET application_name = 'mark_set'; SET search_path TO mark_path /* mark_comment */");
  c.exec("-- mark_comment");
  CHECK(c.value("SELECT 'mark_literal'") == "mark_literal");
  CHECK(sqlstate(c, "LISTEN mark_refused; SELECT mark_column FROM mark_table") == "0A000");
  CHECK(sqlstate(c, "NOTIFY a, 'mark_payload'") == "0A000");
  CHECK(sqlstate(c, "LISTEN mark_undone; SELECT * FROM") != "");
  c.exec("BEGIN; LISTEN mark_rolled_back; ROLLBACK");
  const char* parameter = "mark_parameter";
  PQclear(PQexecParams(c.raw(), "SELECT $1::text", 1, nullptr, &parameter, nullptr, nullptr, 0));
  PQclear(PQprepare(c.raw(), "mark_statement", "SHOW mark_setting", 0, nullptr));
  c.exec("UNLISTEN *");
  c.exec("LISTEN last");  // all before it has been read
  const auto listen = r.queries("LISTEN");
  REQUIRE_FALSE(listen.empty());
  for (auto query : r.proxy().queries()) {
    INFO(query);
    // The one name that was meant, as one identifier.
    constexpr std::string_view name = "\"a\"\"; SELECT 'mark_in_name'; --\"";
    if (const auto at = query.find(name); at != std::string::npos) query.erase(at, name.size());
    CHECK(query.find("mark") == std::string::npos);
  }
  CHECK(says(listen.front(), "\"a\"\"; SELECT 'mark_in_name'; --\""));
  CHECK(r.pg().value("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'mark%' OR usename "
                     "LIKE 'mark%'") == "0");
}

TEST_CASE("P4: a short outage is waited for, in a longer one libpq goes to the next host") {
  auto options = open_door({"--front-door-grace", "500ms"});
  options.through_proxy = true;
  rig r(options);
  connection listening(door(r));
  listening.exec("LISTEN a");
  r.proxy().refuse();
  r.proxy().close_all();
  REQUIRE(r.hub().await_health(false));
  const auto tcp = std::to_string(r.pg().port());
  connection fallen("host=" + folder_of(r) + ",127.0.0.1 port=5432," + tcp +
                    " user=postgres dbname=" + r.database());
  CHECK(std::string(PQport(fallen.raw())) == tcp);
  CHECK(says(last_words(listening), "has lost its session"));
  CHECK(PQping(door(r).c_str()) == PQPING_REJECT);
  r.proxy().refuse(false);
  REQUIRE(r.hub().await_health());
  connection back("host=" + folder_of(r) + ",127.0.0.1 port=5432," + tcp +
                  " user=postgres dbname=" + r.database());
  CHECK(std::string(PQport(back.raw())) == "5432");
}

TEST_CASE("P4: who connects in an outage is let in when it is over") {
  auto options = open_door();
  options.through_proxy = true;
  rig r(options);
  r.proxy().refuse();
  r.proxy().close_all();
  REQUIRE(r.hub().await_health(false));
  PGconn* early = PQconnectStart(door(r).c_str());
  REQUIRE(PQstatus(early) != CONNECTION_BAD);
  const auto step = [&] { return PQconnectPoll(early); };
  step();
  r.proxy().refuse(false);
  CHECK(eventually(15s, [&] {
    const auto now = step();
    return now == PGRES_POLLING_OK || now == PGRES_POLLING_FAILED;
  }));
  CHECK(PQstatus(early) == CONNECTION_OK);
  PQfinish(early);
}

TEST_CASE("P6: a LISTEN that waits is cancelled") {
  auto options = open_door();
  options.through_proxy = true;
  rig r(options);
  connection c(door(r));
  r.proxy().refuse();
  r.proxy().close_all();
  REQUIRE(r.hub().await_health(false));
  c.send("LISTEN a");
  char error[256] = "";
  PGcancel* cancel = PQgetCancel(c.raw());
  // The LISTEN may not have been read when the first cancel comes.
  REQUIRE(eventually(10s, [&] {
    PQcancel(cancel, error, sizeof error);
    PQconsumeInput(c.raw());
    return PQisBusy(c.raw()) == 0;
  }));
  PQfreeCancel(cancel);
  PGresult* result = PQgetResult(c.raw());
  CHECK(std::string(PQresultErrorField(result, PG_DIAG_SQLSTATE)) == "57014");
  PQclear(result);
  while ((result = PQgetResult(c.raw())) != nullptr) PQclear(result);
  CHECK(c.value("SELECT 1") == "1");
}

TEST_CASE("P18: a hub that stops says so, and its successor serves") {
  rig r(open_door({"--drain-grace", "300ms"}));
  connection c(door(r));
  c.exec("LISTEN a");
  REQUIRE(r.hub().stop() == 0);
  CHECK(says(last_words(c), "the hub stops"));
  r.hub().start();
  REQUIRE(r.hub().await_health());
  connection again(door(r));
  again.exec("LISTEN a");
  r.notify("a", "x");
  expect_payload(again, "x");
}

TEST_CASE("D3, P20: a driver that reads nothing is evicted, and harms nobody") {
  rig r(open_door({"--outbox-max-bytes", "1MiB"}));
  connection deaf(door(r));
  connection good(door(r));
  deaf.exec("LISTEN big");
  good.exec("LISTEN big; LISTEN small");
  const std::string payload(7'000, 'x');
  auto publisher = r.publisher();
  bool evicted = false;
  for (int i = 0; i < 2'000 && !evicted; ++i) {
    publisher.notify("big", payload + std::to_string(i));
    REQUIRE(good.next_notification(10s));
    if (i % 50 == 0) evicted = says(r.hub().log(), "worker evicted");
  }
  CHECK(eventually(10s, [&] { return says(r.hub().log(), "worker evicted"); }));
  publisher.notify("small", "x");
  expect_payload(good, "x");
}

TEST_CASE("P20: thousands of answers that nobody reads take no memory: the client is not read meanwhile") {
  rig r(open_door());
  connection c(door(r));
  REQUIRE(PQsetnonblocking(c.raw(), 1) == 0);
  REQUIRE(PQenterPipelineMode(c.raw()) == 1);
  constexpr int asked = 200;  // a megabyte of answers
  for (int i = 0; i < asked; ++i) {
    REQUIRE(PQsendQueryParams(c.raw(), "SHOW ALL", 0, nullptr, nullptr, nullptr, nullptr, 0) == 1);
    PQpipelineSync(c.raw());
    PQflush(c.raw());
  }
  connection other(door(r));
  CHECK(other.value("SELECT 1") == "1");
  int answered = 0;
  int rows = 0;
  REQUIRE(eventually(30s, [&] {
    PQflush(c.raw());
    if (PQconsumeInput(c.raw()) == 0) return true;
    while (PQisBusy(c.raw()) == 0) {
      PGresult* result = PQgetResult(c.raw());
      if (result == nullptr) {
        if (PQisBusy(c.raw()) == 0 && (result = PQgetResult(c.raw())) == nullptr) break;
        if (result == nullptr) continue;
      }
      rows += PQntuples(result);
      answered += PQresultStatus(result) == PGRES_PIPELINE_SYNC ? 1 : 0;
      PQclear(result);
    }
    return answered == asked;
  }));
  CHECK(answered == asked);
  CHECK(rows > 50 * asked);
}

TEST_CASE("P2, P19: what is no startup packet is told so, and one that does not come is not waited for") {
  rig r(open_door({"--frame-deadline", "1s"}));
  const auto answer = [&](const std::string& bytes) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    const auto path = folder_of(r) + "/.s.PGSQL.5432";
    std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
    REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    if (!bytes.empty()) REQUIRE(write(fd, bytes.data(), bytes.size()) > 0);
    std::string all;
    char some[512];
    for (ssize_t n = 0; (n = read(fd, some, sizeof some)) > 0;) all.append(some, static_cast<std::size_t>(n));
    close(fd);
    return all;
  };
  CHECK(says(answer("GET / HTTP/1.1\r\n\r\n"), "08P01"));
  CHECK(says(answer(std::string("\0\0\0\10\4\322\26/", 8)), "N"));  // SSLRequest
  CHECK(says(answer(""), "08P01"));
  CHECK(connection(door(r)).usable());
}
