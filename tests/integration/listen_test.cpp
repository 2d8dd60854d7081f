#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>

#include "integration/client_rig.hpp"

using namespace pgwake::test;

namespace {

process listening(client_rig& r, std::vector<std::string> more,
                  std::vector<std::pair<std::string, std::string>> env = {}) {
  std::vector<std::string> arguments = {"listen", "--socket", r.hub().socket(), "--database", r.conninfo()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  auto command = pgwaked_command(std::move(arguments));
  command.env.insert(command.env.end(), env.begin(), env.end());
  return process(std::move(command));
}

}  // namespace

TEST_CASE("listen --json: one object a line, flushed, exactly as documented") {
  client_rig r;
  auto p = listening(r, {"orders", "B c", "--json"}, {{"PGWAKE_RETURN_DELAY", "200ms"}});
  REQUIRE(p.wait_for_out(R"({"event":"subscribed","channel":"B c"})", 10s));
  CHECK(p.out() ==
        "{\"event\":\"state\",\"source\":\"hub\"}\n{\"event\":\"subscribed\",\"channel\":\"orders\"}\n"
        "{\"event\":\"subscribed\",\"channel\":\"B c\"}\n");
  r.notify("orders");
  CHECK(p.wait_for_out("{\"event\":\"wake\",\"channel\":\"orders\",\"payload\":null,\"source\":\"hub\"}\n",
                       5s));
  r.notify("B c", "a \"quoted\"\nline");
  CHECK(p.wait_for_out(
      "{\"event\":\"wake\",\"channel\":\"B c\",\"payload\":\"a \\\"quoted\\\"\\nline\",\"source\":\"hub\"}\n",
      5s));
  r.hub().kill();
  // On a slow machine `none` is over before it is told.
  CHECK(p.wait_for_out("{\"event\":\"state\",\"source\":\"own\"}\n", 10s));
  CHECK(
      p.wait_for_out("{\"event\":\"wake\",\"channel\":\"orders\",\"payload\":null,\"source\":\"own\",\"gap\":"
                     "\"hub_lost\"}\n",
                     5s));
  r.notify("orders", "x");
  CHECK(p.wait_for_out("{\"event\":\"wake\",\"channel\":\"orders\",\"payload\":\"x\",\"source\":\"own\"}\n",
                       5s));
  p.signal(GENERATE(SIGINT, SIGTERM));
  CHECK(p.wait(5s) == 0);
  CHECK(p.err().empty());
}

TEST_CASE("listen --json: bytes that are not UTF-8 come as payload64") {
  client_rig r({.encoding = "SQL_ASCII"});
  auto p = listening(r, {"c", "--json"});
  REQUIRE(p.wait_for_out("subscribed", 10s));
  r.host().sql("SELECT pg_notify('c', convert_from('\\xe9'::bytea, 'SQL_ASCII'))");
  CHECK(p.wait_for_out(R"({"event":"wake","channel":"c","payload":null,"source":"hub","payload64":"6Q=="})",
                       5s));
}

TEST_CASE("C4: a process that stood still reads what came meanwhile before it judges the hub's silence") {
  client_rig r({.arguments = {"--heartbeat", "400ms"}});  // silence is three of them
  auto p = listening(r, {"c", "--json"});
  REQUIRE(p.wait_for_out("subscribed", 10s));
  const auto before = p.out();
  p.signal(SIGSTOP);
  std::string all;
  for (int i = 0; i < 150; ++i) {
    const auto payload = std::to_string(i) + std::string(1'000, '.');
    r.notify("c", payload);
    all += R"({"event":"wake","channel":"c","payload":")" + payload + "\",\"source\":\"hub\"}\n";
  }
  CHECK_FALSE(p.wait(3s));
  p.signal(SIGCONT);
  CHECK(p.wait_for_out(all, 10s));
  CHECK(p.out() == before + all);  // no state, no gap
}

TEST_CASE("listen: for people, with what others chose escaped") {
  client_rig r;
  auto p = listening(r, {"c"});
  REQUIRE(p.wait_for_out("subscribed to c", 10s));
  CHECK(p.wait_for_out("served by the hub", 5s));
  r.notify("c", "clear\x1b[2J");
  CHECK(p.wait_for_out("-> c  clear\\x1b[2J", 5s));
  r.hub().kill();
  CHECK(p.wait_for_out("gap: something may have been missed (hub_lost)", 10s));
}

TEST_CASE("listen: 1 when a channel is refused, 2 for wrong usage") {
  client_rig r;
  auto p = listening(r, {std::string(64, 'x')});
  CHECK(p.wait(10s) == 1);
  CHECK_THAT(p.err(), Catch::Contains("cannot subscribe"));
  CHECK(listening(r, {}).wait(10s) == 2);
  CHECK(listening(r, {"c", "--policy", "sometimes"}).wait(10s) == 2);
  CHECK(listening(r, {"c"}, {{"PGWAKE_POLL_INTERVAL", "soon"}}).wait(10s) == 2);
}

TEST_CASE("listen: says why nobody serves, and with --json on standard error, each reason once") {
  const temp_dir home;
  auto start = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"listen",   "c",          "--socket",
                                          home / "s", "--database", "host=127.0.0.1 port=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return process(pgwaked_command(std::move(arguments)));
  };
  auto text = start({});
  CHECK(text.wait_for_out("served by nobody: " + (home / "s"), 10s));
  CHECK(text.wait_for_out("port 1 failed: Connection refused", 10s));
  CHECK(text.err().empty());

  auto json = start({"--json"});
  CHECK(json.wait_for_err("pgwaked listen: served by nobody: " + (home / "s"), 10s));
  REQUIRE(json.wait_for_err("port 1 failed: Connection refused", 10s));
  CHECK(json.out() == "{\"event\":\"state\",\"source\":\"none\"}\n");
  const auto lines = [&] {
    const auto all = json.err();
    return std::count(all.begin(), all.end(), '\n');
  };
  // Many attempts later nothing is told again: only what is new.
  const auto before = lines();
  CHECK_FALSE(json.wait(3s));
  CHECK(lines() <= before + 1);
}

TEST_CASE("listen: a value that makes no sense is named once, as whoever gave it wrote it") {
  const auto complaint = [](std::vector<std::string> more,
                            std::vector<std::pair<std::string, std::string>> env) {
    more.insert(more.begin(), {"listen", "c"});
    auto command = pgwaked_command(std::move(more));
    command.env.insert(command.env.end(), env.begin(), env.end());
    const auto result = run(std::move(command), 10s);
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK(complaint({}, {{"PGWAKE_POLICY", "frob"}}) ==
        "pgwaked listen: PGWAKE_POLICY=frob: write listener, poll, none or direct\n");
  CHECK(complaint({"--policy", "frob"}, {{"PGWAKE_POLICY", "poll"}}) ==
        "pgwaked listen: --policy=frob: write listener, poll, none or direct\n");
  CHECK_THAT(complaint({"--fallback-limit=-1"}, {}),
             Catch::StartsWith("pgwaked listen: --fallback-limit=-1: it may not be negative"));
  CHECK_THAT(complaint({}, {{"PGWAKE_DATABASE", "hots=x"}}),
             Catch::StartsWith("pgwaked listen: PGWAKE_DATABASE: ") && Catch::Contains("hots"));
  CHECK_THAT(complaint({"--database", "hots=x"}, {{"PGWAKE_DATABASE", "host=x"}}),
             Catch::StartsWith("pgwaked listen: --database: ") && Catch::Contains("hots"));
}

TEST_CASE("listen: a channel may begin with a dash, after `--`") {
  client_rig r;
  auto p = listening(r, {"a", "--", "-x", "--json"});
  REQUIRE(p.wait_for_out("subscribed to --json", 10s));
  r.notify("-x", "hello");
  CHECK(p.wait_for_out("-> -x  hello", 5s));
}

TEST_CASE("listen: the command line wins over the environment") {
  client_rig r;
  auto p = listening(r, {"c", "--json", "--policy", "direct"}, {{"PGWAKE_POLICY", "none"}});
  REQUIRE(p.wait_for_out("subscribed", 10s));
  CHECK(p.wait_for_out(R"({"event":"state","source":"own"})", 5s));
}

TEST_CASE("listen: ends quietly when nobody reads any more") {
  client_rig r;
  const auto command = pgwaked_path() + " listen c --socket " + r.hub().socket() + " --database '" +
                       r.conninfo() + "' | head -n 1; echo ${PIPESTATUS[0]}";
  process p({.argv = {"bash", "-c", command}});
  const auto code = p.wait(10s);
  REQUIRE(code);
  CHECK_THAT(p.out(), Catch::EndsWith("\n0\n"));
  CHECK(p.err().empty());
}
