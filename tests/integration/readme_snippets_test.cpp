// README's "Plug it in", run as it stands: before and after, in each language.
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include <cstdlib>

#include "integration/rig.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

constexpr const char* needs_packages =
    "needs an interpreter with its PostgreSQL driver: scripts/install-packages python3-psycopg nodejs npm "
    "ruby, then "
    "ctest -L snippets in build/test/dev";

constexpr const char* node_path = "/usr/share/nodejs:" NODE_PACKAGES "/node_modules:" NODE_PACKAGES;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The first block in this language below "Plug it in".
std::string snippet(const std::string& language) {
  const auto readme = read_file(PGWAKE_SOURCE_DIR "/README.md");
  const auto section = readme.find("\n## Plug it in\n");
  REQUIRE(section != std::string::npos);
  const auto mark = "\n```" + language + "\n";
  const auto begin = readme.find(mark, section);
  REQUIRE(begin != std::string::npos);
  const auto code = begin + mark.size();
  return readme.substr(code, readme.find("\n```", code) + 1 - code);
}

// What stands before the empty line, and what after it.
std::pair<std::string, std::string> before_and_after(const std::string& code) {
  const auto gap = code.find("\n\n");
  REQUIRE(gap != std::string::npos);
  CHECK(has(code.substr(0, gap), "before"));
  return {code.substr(0, gap + 1), code.substr(gap + 2)};
}

bool runs(std::vector<std::string> argv) {
  try {
    process_options job{.argv = std::move(argv)};
    job.env = {{"NODE_PATH", node_path}};
    return run(std::move(job), at_load(20s)).exit_code == 0;
  } catch (const std::exception&) {
    return false;
  }
}

// A program with pgwaked on its PATH, and what the unit of a worker would have.
process program(rig& r, std::vector<std::string> argv) {
  const auto pgwaked = pgwaked_path();
  const char* path = std::getenv("PATH");
  process_options job{.argv = std::move(argv)};
  job.env = {
      {"PATH", pgwaked.substr(0, pgwaked.rfind('/')) + ":" + (path != nullptr ? path : "/usr/bin:/bin")},
      {"NODE_PATH", node_path},
      {"PYTHONPATH", PGWAKE_SOURCE_DIR "/client/python"},
      {"PYTHONDONTWRITEBYTECODE", "1"},
      {"LIBPGWAKE", LIBPGWAKE},
      {"PGWAKE_SOCKET", r.hub().socket()},
      {"PGWAKE_DATABASE", r.pg().conninfo(r.database())},
      {"TEST_PORT", std::to_string(r.pg().port())},
      {"TEST_DATABASE", r.database()},
      {"TEST_CONNINFO", r.pg().conninfo(r.database())}};
  return process(std::move(job));
}

bool says(process& p, const std::string& line) {
  const bool came = p.wait_for_out(line + "\n", at_load(10s));
  INFO(p.out() << p.err());
  CHECK(came);
  return came;
}

void hears_by_itself(rig& r, process p) {
  REQUIRE(says(p, "ready"));
  r.notify("orders", "one");
  says(p, "refresh one");
}

// Subscribed, a payload, a durable wake, and the same without the hub.
void hears_through_the_hub(rig& r, process p) {
  REQUIRE(says(p, "again"));
  r.notify("orders", "one");
  says(p, "refresh one");
  r.notify("orders");
  CHECK(eventually(at_load(10s), [&] { return count_of(p.out(), "again\n") == 2; }));
  r.hub().kill();
  // A gap is announced: read again. Then the listener serves by itself.
  CHECK(eventually(at_load(20s), [&] { return count_of(p.out(), "again\n") == 3; }));
  r.notify("orders", "two");
  says(p, "refresh two");
  INFO(p.err());
  CHECK(p.running());
}

}  // namespace

TEST_CASE("README, Django: psycopg's loop before, pgwake's after") {
  const std::string python = "/usr/bin/python3";
  if (!runs({python, "-c", "import psycopg"})) SKIP_CASE(needs_packages);
  const auto [before, after] = before_and_after(snippet("python"));
  const std::string functions =
      "import os, pgwake\n"
      "def refresh(payload): print('refresh', payload, flush=True)\n"
      "def read_again(): print('again', flush=True)\n";
  rig r;
  hears_by_itself(
      r, program(r, {python, "-c",
                     functions +
                         "import psycopg\n"
                         "connection = psycopg.connect(os.environ['TEST_CONNINFO'], autocommit=True)\n"
                         "connection.execute('LISTEN orders')\nprint('ready', flush=True)\n" +
                         before}));
  hears_through_the_hub(r, program(r, {python, "-c", functions + after}));
}

TEST_CASE("README, Node: pg's event before, pgwake's loop after") {
  if (!runs({"node", "-e", "require('pg'), require('pgwake')"})) SKIP_CASE(needs_packages);
  const auto [before, after] = before_and_after(snippet("js"));
  const std::string functions =
      "const refresh = (payload) => console.log('refresh ' + payload);\n"
      "const readAgain = () => console.log('again');\n";
  rig r;
  hears_by_itself(
      r,
      program(
          r,
          {"node", "-e",
           functions +
               "const client = new (require('pg').Client)({host: '127.0.0.1', port: process.env.TEST_PORT, "
               "user: 'postgres', database: process.env.TEST_DATABASE});\n"
               "client.connect().then(() => client.query('LISTEN orders')).then(() => "
               "console.log('ready'));\n" +
               before}));
  const std::string package =
      "import { createRequire } from 'node:module';\n"
      "const pgwake = createRequire(process.cwd() + '/')('pgwake');\n";
  hears_through_the_hub(r, program(r, {"node", "--input-type=module", "-e", package + functions + after}));
}

TEST_CASE("README, Rails: the hook leads each worker of Puma to the hub, and the master to none") {
  if (!runs({"ruby", "-e", "1"})) SKIP_CASE(needs_packages);
  auto code = snippet("ruby");
  rig r;
  // Its own socket in place of the instance `shop`'s.
  const std::string socket = "/run/pgwake/shop/pgwake.sock";
  const auto at = code.find(socket);
  REQUIRE(at != std::string::npos);
  code.replace(at, socket.size(), r.hub().socket());
  // What Puma and pgbus' client do with it: the hook runs in the forked worker, whose client then speaks v0.
  const std::string puma_and_pgbus = R"(
require "json"
require "socket"
module Pgbus
  Settings = Struct.new(:streams_listen_scope)
  def self.config = @config ||= Settings.new
  def self.configure = yield(config)
end
def on_worker_boot(&hook) = $hook = hook
)";
  const std::string boot = R"(
raise "in the master" if ENV["PGBUS_STREAMS_HUB_SOCKET"] || Pgbus.config.streams_listen_scope != :process
Process.wait(fork do
  $hook.call
  raise "not on the hub" unless Pgbus.config.streams_listen_scope == :master
  hub = UNIXSocket.new(ENV["PGBUS_STREAMS_HUB_SOCKET"])
  send = ->(message) { body = message.to_json; hub.write([body.bytesize].pack("N") + body) }
  read = -> { JSON.parse(hub.read(hub.read(4).unpack1("N"))) }
  send.call({t: "sub", q: "pgbus_default"})
  answer = read.call until answer && answer["t"] == "ack"
  STDOUT.puts "ready"
  STDOUT.flush
  answer = read.call until answer["t"] == "wake"
  STDOUT.puts "refresh #{answer["q"]}"
  STDOUT.flush
end)
)";
  auto p = program(r, {"ruby", "-e", puma_and_pgbus + code + boot});
  REQUIRE(says(p, "ready"));
  r.notify("pgmq.q_pgbus_default.INSERT");
  says(p, "refresh pgbus_default");
}
