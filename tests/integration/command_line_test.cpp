#include <rapidjson/document.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <sstream>

#include "integration/rig.hpp"
#include "support/files.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

run_result pgwaked(std::vector<std::string> arguments,
                   std::vector<std::pair<std::string, std::string>> env = {}) {
  auto job = pgwaked_command(std::move(arguments));
  job.env = std::move(env);
  return run(std::move(job), 10s);
}

rapidjson::Document parsed(const std::string& text) {
  rapidjson::Document doc;
  doc.Parse(text.data(), text.size());
  INFO(text);
  REQUIRE_FALSE(doc.HasParseError());
  return doc;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("wrong usage exits with 2, names what is wrong, the accepted form, and where it came from") {
  struct wrong {
    std::vector<std::string> arguments;
    std::vector<std::string> says;
    std::vector<std::pair<std::string, std::string>> env = {};
  };
  const std::vector<wrong> cases = {
      {{}, {"--help"}},
      {{"rum"}, {"rum", "run"}},
      {{"run", "--sokcet", "/tmp/x"}, {"--sokcet", "--socket"}},
      {{"run", "extra"}, {"extra"}},
      {{"run", "--socket"}, {"--socket"}},
      {{"run", "--heartbeat", "5"}, {"heartbeat", "5", "5s"}},
      {{"run", "--heartbeat", "-5s"}, {"heartbeat", "-5s"}},
      {{"run", "--heartbeat", "1ms"}, {"heartbeat", "1ms", "100ms"}},
      {{"run", "--outbox-max-bytes", "16MB"}, {"outbox", "16MB", "MiB"}},
      {{"run", "--socket-mode", "0999"}, {"socket", "0999"}},
      {{"run", "--queue-template", "no braces"}, {"template", "no braces", "{}"}},
      {{"run", "--queue-template", "{}{}"}, {"template", "{}"}},
      {{"run", "--log-level", "loud"}, {"loud", "info"}},
      {{"run", "--log-format", "xml"}, {"xml", "json"}},
      {{"run", "--max-workers", "0"}, {"workers", "0"}},
      {{"run", "--metrics-listen", "0.0.0.0:9000"}, {"metrics", "0.0.0.0"}},
      {{"run", "--allow", "uid:nobody-at-all-here"}, {"allow", "nobody-at-all-here"}},
      {{"run", "--config", "/nonexistent.toml"}, {"/nonexistent.toml", "No such file"}},
      {{"run"}, {"PGWAKE_HEARTBEAT", "soon"}, {{"PGWAKE_HEARTBEAT", "soon"}}},
      {{"run"}, {"PGWAKE_HEARTBEET", "PGWAKE_HEARTBEAT"}, {{"PGWAKE_HEARTBEET", "5s"}}},
      {{"config", "--heartbeat", "x"}, {"heartbeat"}},
      {{"run", "--database", "hots=localhost"}, {"database", "hots", "command line", "host="}},
      {{"run"}, {"hots", "PGWAKE_DATABASE"}, {{"PGWAKE_DATABASE", "hots=localhost"}}},
      {{"config", "--database", "postgresql://u:tell-nobody@[::1/d"}, {"database", "IPv6"}},
      {{"listen"}, {"CHANNEL"}},
      {{"status", "--yaml"}, {"--yaml"}}};
  for (const auto& one : cases) {
    std::string command;
    for (const auto& argument : one.arguments) command += " " + argument;
    INFO("pgwaked" << command);
    const auto result = pgwaked(one.arguments, one.env);
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_FALSE(has(result.err, "tell-nobody"));
    for (const auto& part : one.says) CHECK(has(result.err, part));
  }
}

TEST_CASE("a wrong file is named with its line, an unknown key with the nearest one") {
  const temp_dir directory;
  const std::string file = directory / "pgwaked.toml";
  write_file(file, "# settings\nheartbeat = \"5s\"\noutbox_max_byte = \"1MiB\"\n");
  auto result = pgwaked({"run", "--config", file});
  CHECK(result.exit_code == 2);
  CHECK(has(result.err, file));
  CHECK(has(result.err, "3"));
  CHECK(has(result.err, "outbox_max_bytes"));
  write_file(file, "heartbeat = \"5s\nmax_workers = 5\n");
  result = pgwaked({"config", "--config", file});
  CHECK(result.exit_code == 2);
  CHECK(has(result.err, file));
}

TEST_CASE(
    "config shows each setting and its origin; command line over environment over file over "
    "default") {
  const temp_dir directory;
  const std::string file = directory / "pgwaked.toml";
  write_file(file,
             "heartbeat = \"1s\"\nprobe_interval = \"2s\"\nprobe_timeout = \"3s\"\n"
             "database = \"postgresql://u:tell-nobody@h/d\"\n");
  const auto result = pgwaked({"config", "--config", file, "--heartbeat", "4s"},
                              {{"PGWAKE_HEARTBEAT", "5s"}, {"PGWAKE_PROBE_INTERVAL", "6s"}});
  CHECK(result.exit_code == 0);
  INFO(result.out << result.err);
  std::string heartbeat;
  std::string interval;
  std::string timeout;
  std::string linger;
  for (const auto& line : lines_of(result.out)) {
    if (line.rfind("heartbeat", 0) == 0) heartbeat = line;
    if (line.rfind("probe_interval", 0) == 0) interval = line;
    if (line.rfind("probe_timeout", 0) == 0) timeout = line;
    if (line.rfind("unlisten_linger", 0) == 0) linger = line;
  }
  CHECK((has(heartbeat, "4s") && has(heartbeat, "command line")));
  CHECK((has(interval, "6s") && has(interval, "PGWAKE_PROBE_INTERVAL")));
  CHECK((has(timeout, "3s") && has(timeout, file)));
  CHECK((has(linger, "30s") && has(linger, "default")));
  CHECK_FALSE(has(result.out + result.err, "tell-nobody"));
  // What it prints is a file that it would take.
  write_file(file, result.out);
  CHECK(pgwaked({"config", "--config", file}).exit_code == 0);
  auto checked = pgwaked({"config", "--check", "--config", file});
  CHECK(checked.exit_code == 0);
  CHECK((checked.out + checked.err).empty());
  checked = pgwaked({"config", "--check", "--config", file, "--heartbeat", "x"});
  CHECK(checked.exit_code == 2);
  CHECK(has(checked.err, "heartbeat"));
}

TEST_CASE("help and version go to standard output") {
  const auto version = pgwaked({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(has(version.out, "0.1.0"));
  for (const char* command : {"run", "status", "listen", "config"}) {
    const auto help = pgwaked({command, "--help"});
    INFO(command);
    CHECK(help.exit_code == 0);
    CHECK(has(help.out, "--socket"));
    CHECK(help.err.empty());
  }
  CHECK(has(pgwaked({"run", "--help"}).out, "--outbox-max-bytes"));
}

TEST_CASE("run exits with 0 when stopped, and takes its socket along") {
  rig r;
  const int signal = GENERATE(SIGTERM, SIGINT);
  r.hub().child().signal(signal);
  CHECK(r.hub().child().wait(3s) == 0);
  CHECK_FALSE(can_connect(r.hub().socket()));
}

TEST_CASE("case 31: a stop is told to workers, waits for them up to drain_grace, and no longer") {
  rig r({.arguments = {"--drain-grace", "1s"}});
  auto modern = r.worker();
  modern.subscribe("c");
  auto old = r.v0();
  old.sub("c");
  old.expect("ack", "c");
  bool draining = false;
  bool bye = false;
  const auto taken = time_of([&] {
    r.hub().child().signal(SIGTERM);
    while (const auto got = modern.next(3s)) {
      draining =
          draining || (got->t() == "status" && got->flag("draining") && got->number("grace_ms") == 1000);
      bye = bye || (got->t() == "bye" && got->code() == "shutdown");
    }
  });
  CHECK(draining);
  CHECK(bye);
  CHECK(taken >= 800ms);
  CHECK(r.hub().child().wait(5s) == 0);
  CHECK(old.closed());
}

TEST_CASE("case 31: once its workers have left a draining hub does not wait") {
  rig r;
  auto worker = r.worker();
  r.hub().child().signal(SIGTERM);
  while (const auto got = worker.next(3s))
    if (got->flag("draining")) break;
  worker.close();
  CHECK(r.hub().child().wait(at_load(2s)) == 0);  // the grace is 5 s
}

TEST_CASE("case 31: a hub stops in the middle of a re-LISTEN and of a flood") {
  rig r({.arguments = {"--drain-grace", "100ms"}});
  auto worker = r.worker();
  worker.subscribe("c");
  std::string burst;
  for (int i = 0; i < 10000; ++i) burst += frame_of(R"({"t":"sub","q":"n)" + std::to_string(i) + "\"}");
  worker.send_raw(burst);
  auto publisher = r.publisher();
  publisher.send("SELECT pg_notify('c', n::text) FROM generate_series(1, 100000) n");
  for (bool acked = false; !acked;) {  // the first wake may come before it
    const auto got = worker.next(at_load(5s));
    REQUIRE(got);
    acked = got->t() == "ack";
  }
  CHECK(time_of([&] { CHECK(r.hub().stop(3s) == 0); }) < at_load(2s));
}

TEST_CASE("run that cannot start exits with 1 and says why") {
  const auto result = pgwaked({"run", "--socket", "/nonexistent/s", "--database", "host=/nonexistent"});
  CHECK(result.exit_code == 1);
  CHECK(has(result.err, "/nonexistent"));
}

TEST_CASE("the database may be down at boot (case 29)") {
  const temp_dir directory;
  hub_daemon hub({.database = "host=127.0.0.1 port=" + std::to_string(random_port()) + " dbname=x user=x",
                  .until = readiness::accepting});
  auto worker = hub.connect_v1();
  CHECK_FALSE(worker.expect("status").healthy());
  CHECK(pgwaked({"status", "--socket", hub.socket()}).exit_code == 1);
}

TEST_CASE("status says health, upstream, workers, channels and totals, and exits by health") {
  const temp_dir directory;
  const auto none = pgwaked({"status", "--socket", directory / "none"});
  CHECK(none.exit_code == 3);
  CHECK(has(none.err, directory / "none"));

  rig r;
  auto worker = r.worker("puma 3");
  worker.subscribe("orders");
  worker.subscribe("invoices");
  r.notify("orders", "x");
  worker.expect_wake("orders", "x");
  const auto text = pgwaked({"status", "--socket", r.hub().socket()});
  CHECK(text.exit_code == 0);
  INFO(text.out);
  const std::string backend = std::to_string(r.backends().at(0));
  for (const auto& part : {std::string("puma 3"), std::string("orders"), r.database(), backend})
    CHECK(has(text.out, part));
  for (const auto& line : lines_of(text.out)) CHECK(line.size() <= 120);

  const auto json = pgwaked({"status", "--json", "--socket", r.hub().socket()});
  CHECK(json.exit_code == 0);
  const auto doc = parsed(json.out);
  REQUIRE(doc.IsObject());
  for (const char* part : {"puma 3", "orders", "invoices"}) CHECK(has(json.out, part));
  CHECK(pgwaked({"status", "--json"}, {{"PGWAKE_SOCKET", r.hub().socket()}}).exit_code == 0);
}

TEST_CASE("stats over the socket is what status shows") {
  rig r;
  auto other = r.worker("another");
  other.subscribe("c");
  auto worker = r.worker("asker");
  worker.send_json(R"({"t":"stats"})");
  const auto stats = worker.expect("stats");
  CHECK(has(stats.text, "another"));
  CHECK(stats.doc.MemberCount() > 3);
}

TEST_CASE("status tells a degraded hub by its exit code") {
  rig r({.through_proxy = true});
  r.proxy().refuse();
  r.proxy().reset_all();
  REQUIRE(r.hub().await_health(false, 3s));
  const auto result = pgwaked({"status", "--socket", r.hub().socket()});
  CHECK(result.exit_code == 1);
  CHECK(has(result.out, "refused"));
}

TEST_CASE("logs are lines of text, or of JSON, and hold no payload") {
  rig r({.arguments = {"--log-format", "json", "--log-level", "debug"}});
  auto worker = r.worker("odd \"name\"\n");
  worker.subscribe("c");
  r.notify("c", "a secret payload");
  worker.expect("wake", "c");
  REQUIRE(r.terminate());
  worker.expect("wake", "c", 10s);
  worker.close();
  CHECK(r.hub().stop() == 0);
  const auto lines = lines_of(r.hub().log());
  CHECK(lines.size() >= 3);
  for (const auto& line : lines) CHECK(parsed(line).IsObject());
  CHECK_FALSE(has(r.hub().log(), "secret payload"));
  CHECK(r.hub().child().out().empty());
}

TEST_CASE("a settings file that the hub's user may not read is said to be so") {
  if (geteuid() != 0) SKIP_CASE(needs_root);
  const temp_dir home;
  chmod(home.path().c_str(), 0755);
  write_file(home / "shop.toml", "heartbeat = \"2s\"\n", 0600);
  auto job = pgwaked_command({"config", "--config", home / "shop.toml"});
  job.account = "nobody";
  const auto result = run(std::move(job), 10s);
  CHECK(result.exit_code == 2);
  CHECK(has(result.err, "Permission denied; it must be readable for the user nobody"));
}

TEST_CASE("what others chose is fit for a terminal, in the log too") {
  const bool json = GENERATE(false, true);
  rig r({.arguments = {"--log-format", json ? "json" : "text"}});
  // Right-to-left override, CSI as one character, a line separator, DEL, a tag beyond the first plane; and
  // letters.
  auto worker = r.worker("evil \u202e \u009b31m \u2028 \x7f \U000e0041 ok 日本");
  worker.send_json("no JSON");
  REQUIRE(eventually(5s, [&] { return has(r.hub().log(), "worker dismissed"); }));
  const auto log = r.hub().log();
  for (const auto* bad : {"\u202e", "\u009b", "\u2028", "\x7f", "\U000e0041"}) CHECK_FALSE(has(log, bad));
  CHECK(has(log, "ok 日本"));
  if (!json) {
    CHECK(has(log, "name=\"evil \\u202e \\u009b31m \\u2028 \\u007f \\udb40\\udc41"));
    return;
  }
  CHECK(has(log, "evil \\u202e \\u009b31m \\u2028 \\u007f \\udb40\\udc41"));
  for (const auto& line : lines_of(log)) {
    const auto doc = parsed(line);
    if (std::string(doc["event"].GetString()) == "worker dismissed")
      CHECK(has(doc["name"].GetString(), "evil \u202e \u009b31m \u2028 \x7f \U000e0041 ok"));
  }
}

TEST_CASE("listen prints one object a line, from the hub or without it") {
  const bool with_hub = GENERATE(true, false);
  rig r;
  const std::string source = with_hub ? "hub" : "own";
  const std::string socket = with_hub ? r.hub().socket() : r.hub().socket() + ".none";
  process listening(pgwaked_command(
      {"listen", "a", "b", "--json", "--socket", socket, "--database", r.pg().conninfo(r.database())}));
  REQUIRE(listening.wait_for_out(R"({"event":"subscribed","channel":"b"})", 10s));
  CHECK(has(listening.out(), R"({"event":"subscribed","channel":"a"})"));
  CHECK(listening.wait_for_out(R"({"event":"state","source":")" + source + "\"}", 5s));
  r.notify("a");
  r.notify("b", "x\n\"y\"");
  CHECK(listening.wait_for_out(R"({"event":"wake","channel":"a","payload":null,"source":")" + source + "\"}",
                               3s));
  CHECK(listening.wait_for_out(
      R"({"event":"wake","channel":"b","payload":"x\n\"y\"","source":")" + source + "\"}", 3s));
  if (with_hub) {
    REQUIRE(r.terminate());
    CHECK(listening.wait_for_out(R"("gap":"reconnect")", 10s));
  }
  listening.signal(SIGINT);
  CHECK(listening.wait(3s) == 0);
}

TEST_CASE("listen that cannot subscribe exits with 1 and says why") {
  rig r;
  auto result = pgwaked(
      {"listen", "pgwake.fence", "--socket", r.hub().socket(), "--database", r.pg().conninfo(r.database())});
  CHECK(result.exit_code == 1);
  CHECK(has(result.err, "pgwake.fence"));
  result = pgwaked({"listen", std::string(64, 'x'), "--socket", r.hub().socket(), "--database",
                    r.pg().conninfo(r.database())});
  CHECK(result.exit_code == 1);
}
