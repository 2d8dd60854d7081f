#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>

#include "integration/client_rig.hpp"
#include "support/skip.hpp"

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
    std::vector<std::string> arguments = {
        "listen", "c", "--socket", home / "s", "--database", "host=127.0.0.1 port=1", "--wait"};
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
  CHECK(json.wait_for_out(R"({"event":"state","source":"none","reason":")" + (home / "s"), 5s));
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

TEST_CASE("listen: gives up, with the reason, when nobody serves, unless it is told to wait") {
  const temp_dir home;
  const auto start = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"listen",   "c",          "--socket",
                                          home / "s", "--database", "host=127.0.0.1 port=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return process(pgwaked_command(std::move(arguments)));
  };
  auto impatient = start({"--timeout", "1500ms"});
  auto usual = start({});  // 15 s
  auto patient = start({"--wait", "--json"});
  CHECK(impatient.wait(at_load(20s)) == 1);
  CHECK_THAT(impatient.err(), Catch::Contains("gave up after 1.5 s") &&
                                  Catch::Contains("Connection refused") &&
                                  Catch::Contains("no hub at " + (home / "s")) && Catch::Contains("--wait"));
  CHECK(usual.running());
  CHECK(patient.running());
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--timeout", "soon"}, {"--timeout", "0s"}, {"--timeout", "1s", "--wait"}}) {
    auto refused = start(wrong);
    CHECK(refused.wait(at_load(10s)) == 2);
    CHECK_THAT(refused.err(), Catch::Contains("--timeout"));
  }
}

TEST_CASE("listen: finds the hub by its settings file, and says why it is not served by it") {
  client_rig r;
  const temp_dir home;
  write_file(home / "hub.toml",
             "socket = \"" + r.hub().socket() + "\"\ndatabase = \"" + r.conninfo() + "\"\n");
  process p(pgwaked_command({"listen", "c", "--config", home / "hub.toml"}));
  CHECK(p.wait_for_out("served by the hub", 10s));
  CHECK(run(pgwaked_command({"listen", "c", "--config", home / "none.toml"}), 10s).exit_code == 2);
  process own(pgwaked_command({"listen", "c", "--socket", home / "none", "--database", r.conninfo()}));
  CHECK(own.wait_for_out("no hub at " + (home / "none"), 10s));
}

TEST_CASE("C3: who may not connect to the socket is told so, with what to do, while he is served otherwise") {
  if (::geteuid() != 0) SKIP_CASE(needs_root);
  client_rig r;
  REQUIRE(::chmod(r.hub().socket().c_str(), 0660) == 0);
  const bool json = GENERATE(true, false);
  auto command = pgwaked_command({"listen", "c", "--socket", r.hub().socket(), "--database", r.conninfo()});
  if (json) command.argv.emplace_back("--json");
  command.account = server_account();
  process p(std::move(command));
  CHECK(p.wait_for_out(json ? R"("source":"own","reason":")" + r.hub().socket() + ": Permission denied"
                            : "served by an own connection: " + r.hub().socket() + ": Permission denied",
                       10s));
  CHECK(p.wait_for_out("must be in the socket's group", 10s));
  CHECK(p.wait_for_out("subscribed", 10s));
}

TEST_CASE("C: with one hub on the host, commands and library find it where nobody names a socket") {
  client_rig r;
  // In a /run of its own, which takes root.
  const std::string script =
      "mount -t tmpfs none /run && mkdir -p /run/pgwake/shop && "
      "(\"$0\" run --socket /run/pgwake/shop/pgwake.sock --database \"$1\" 2>/dev/null & "
      "for i in $(seq 100); do \"$0\" status >/dev/null 2>&1 && break; sleep 0.1; done; "
      "\"$0\" status; \"$0\" control log-level debug; timeout 5 \"$0\" listen c; kill %1; wait) ";
  auto job =
      process_options{.argv = {"unshare", "--mount", "bash", "-c", script, pgwaked_path(), r.conninfo()}};
  job.unset = {"PGWAKE_SOCKET"};
  if (run({.argv = {"unshare", "--mount", "mount", "-t", "tmpfs", "none", "/run"}}, 10s).exit_code != 0) {
    WARN("skipped: it takes root and a mount namespace");
    return;
  }
  const auto result = run(std::move(job), 60s);
  CAPTURE(result.out, result.err);
  CHECK_THAT(result.out, Catch::Contains("at /run/pgwake/shop/pgwake.sock"));
  CHECK_THAT(result.out, Catch::Contains("served by the hub"));
}
