// `pgwaked control`: the operator's wishes, carried out by the running hub.
#include <unistd.h>
#include <catch2/catch.hpp>

#include "integration/rig.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

run_result control(rig& r, std::vector<std::string> arguments, const std::string& account = {}) {
  arguments.insert(arguments.begin(), {"control"});
  auto job = pgwaked_command(std::move(arguments));
  job.env = {{"PGWAKE_SOCKET", r.hub().socket()}};
  job.account = account;
  return run(std::move(job), 20s);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string id_of(raw_worker& asker, std::string_view name) {
  asker.send_json(R"({"t":"stats"})");
  const auto stats = asker.expect("stats");
  for (const auto& w : stats.doc["workers"].GetArray())
    if (w["name"].IsString() && w["name"].GetString() == name) return std::to_string(w["id"].GetUint64());
  return "none";
}

}  // namespace

TEST_CASE("control evict closes that worker's connection and no other") {
  rig r;
  auto victim = r.worker("victim");
  victim.subscribe("c");
  auto other = r.worker("other");
  other.subscribe("c");
  const auto id = id_of(other, "victim");
  auto result = control(r, {"evict", id});
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "worker " + id));
  CHECK(has(result.out, std::to_string(getpid())));
  CHECK(victim.closed());
  r.notify("c", "x");
  other.expect_wake("c", "x");
  CHECK(r.hub().logs("event=\"worker evicted\" worker=" + id));
  CHECK(r.hub().logs("reason=operator"));
  for (const auto& wrong : {id, std::string("0")}) {
    result = control(r, {"evict", wrong});
    CHECK(result.exit_code == 1);
    CHECK(has(result.err, "there is no worker"));
  }
  const auto log = r.hub().log();
  for (const auto& nonsense : {"7x", "-1", "", "99999999999999999999"}) {
    result = control(r, {"evict", "--", nonsense});
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, "is no worker's number"));
  }
  CHECK(r.hub().log() == log);
}

TEST_CASE("control log-level takes effect at once") {
  rig r;
  CHECK_FALSE(has(r.hub().log(), "level=debug"));
  CHECK(control(r, {"log-level", "error"}).exit_code == 0);
  // Who made the log silent stands in it.
  REQUIRE(r.hub().child().wait_for_err("event=control uid=" + std::to_string(geteuid()), 5s));
  CHECK(r.hub().logs("do=log-level arg=error"));
  const auto log = r.hub().log();
  const auto backends = r.backends();
  REQUIRE(r.terminate());
  REQUIRE_EVENTUALLY(r.census() == 1 && r.backends() != backends, 10s);
  REQUIRE(r.hub().await_health(true, 10s));
  CHECK(r.hub().log() == log);
  CHECK(control(r, {"log-level", "info"}).exit_code == 0);
  REQUIRE(r.terminate());
  CHECK(r.hub().child().wait_for_err("upstream", 5s));
  const auto wrong = control(r, {"log-level", "loud"});
  CHECK(wrong.exit_code == 2);
  CHECK(has(wrong.err, "trace, debug, info, warning"));
  CHECK_FALSE(has(r.hub().log(), "loud"));
}

TEST_CASE("control reconnect opens a new session, and each worker gets its gap (G1)") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  const auto before = r.backends();
  CHECK(control(r, {"reconnect"}).exit_code == 0);
  CHECK(worker.expect("wake", "c", 5s).gap() == "reconnect");
  REQUIRE_EVENTUALLY(r.census() == 1, 5s);  // the old one's backend may still be on its way out
  CHECK(r.backends() != before);
}

TEST_CASE("control drain tells the workers and stops the hub") {
  rig r({.arguments = {"--drain-grace", "1s"}});
  auto worker = r.worker();
  worker.subscribe("c");
  const auto result = control(r, {"drain"});
  CHECK(result.exit_code == 0);
  CHECK(has(result.out, "1s"));
  bool draining = false;
  while (const auto got = worker.next(3s)) draining = draining || got->flag("draining");
  CHECK(draining);
  CHECK(r.hub().child().wait(3s) == 0);
  CHECK(control(r, {"drain"}).exit_code == 3);
}

TEST_CASE("control drain of a hub without workers is answered before it stops") {
  rig r;
  const auto result = control(r, {"drain"});
  CHECK(result.exit_code == 0);
  CHECK(r.hub().child().wait(3s) == 0);
}

TEST_CASE("control is for root and the hub's own user") {
  if (geteuid() != 0) SKIP_CASE(needs_root);
  rig r({.arguments = {"--socket-mode", "0666"}});
  const auto before = r.backends();
  const auto result = control(r, {"reconnect"}, server_account());
  CHECK(result.exit_code == 1);
  CHECK(has(result.err, "only root"));
  CHECK(r.backends() == before);
  CHECK(r.hub().logs("control refused"));
}

TEST_CASE("control on the wire: v1 only, unknown wishes are refused, nonsense is a protocol error") {
  rig r;
  auto worker = r.worker();
  worker.send_json(R"({"t":"control","do":"fly"})");
  const auto answer = worker.expect("control");
  CHECK_FALSE(answer.flag("ok"));
  CHECK(has(answer.string("text"), "evict, log-level, reconnect and drain"));
  auto old = r.v0();
  old.send_json(R"({"t":"control","do":"drain"})");
  CHECK(old.expect("status").healthy());
  CHECK(old.drain(200ms).empty());
  worker.send_json(R"({"t":"control","do":7})");
  CHECK(worker.expect("bye").code() == "protocol");
}

TEST_CASE("control's wrong usage exits with 2, an absent hub with 3") {
  rig r;
  CHECK(control(r, {}).exit_code == 2);
  CHECK(control(r, {"evict"}).exit_code == 2);
  CHECK(control(r, {"evcit", "3"}).exit_code == 2);
  CHECK(has(control(r, {"evcit", "3"}).err, "evict"));
  CHECK(control(r, {"reconnect", "--socket", "/nonexistent/s"}).exit_code == 3);
  CHECK(control(r, {"--socket", "/nonexistent/s", "reconnect"}).exit_code == 3);
}
