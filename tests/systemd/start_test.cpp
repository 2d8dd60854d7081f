// Starts that go wrong, what doctor says of the unit then, and the order of starts and stops.
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "support/files.hpp"
#include "systemd/host.hpp"

using namespace pgwake::test;

namespace {

std::string settings_for(const std::string& database) {
  return "database = \"" + cluster::shared().conninfo(database) + "\"\n";
}

// What it says, in one line: its lines are as wide as a page.
std::string doctor_says(const instance& hub) {
  std::istringstream words(command({"pgwaked", "doctor", "--config", hub.etc(".toml")}).out);
  std::string out;
  for (std::string word; words >> word;) out += word + " ";
  return out;
}

std::string folder_of_postgres() {
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql"))
    if (std::filesystem::exists(version.path() / "bin/postgres")) return version.path() / "bin";
  throw std::runtime_error("no PostgreSQL");
}

}  // namespace

TEST_CASE(
    "systemd: doctor tells a unit that is stopped, one that failed and one that runs, with its last words") {
  const auto database = cluster::shared().new_database();
  const instance hub("looked-at", settings_for(database));
  hub.start();
  REQUIRE(hub.healthy());
  CHECK_THAT(doctor_says(hub), Catch::Contains("ok unit " + hub.unit() + " is active (running)"));
  hub.stop();
  const auto stopped = doctor_says(hub);
  CHECK_THAT(stopped, Catch::Contains("failure unit " + hub.unit() + " is inactive (dead)") &&
                          Catch::Contains("systemctl start"));
  // With a file that cannot be read the unit is its own all the same.
  hub.settings("max_wrkers = 5\n");
  CHECK(hub.try_start().exit_code != 0);
  const auto failed = doctor_says(hub);
  CHECK_THAT(failed, Catch::Contains("failure unit " + hub.unit() + " is failed (failed)") &&
                         Catch::Contains("exit status 2") && Catch::Contains("did you mean max_workers?"));
}

TEST_CASE("systemd: doctor --bundle has the unit's state and journal") {
  const auto database = cluster::shared().new_database();
  const instance hub("bundled",
                     "database = \"" + cluster::shared().conninfo(database) + " password=Se-cret\"\n");
  hub.start();
  REQUIRE(hub.healthy());
  REQUIRE(hub.logs("upstream connected"));
  command({"pgwaked", "doctor", "--config", hub.etc(".toml"), "--bundle", "/tmp/bundled.tar"});
  command_ok({"tar", "xf", "/tmp/bundled.tar", "-C", "/tmp"});
  CHECK_THAT(read_file("/tmp/pgwaked-bundle/unit.txt"), Catch::Contains("state active (running)"));
  CHECK_THAT(read_file("/tmp/pgwaked-bundle/journal.txt"), Catch::Contains("upstream connected"));
  CHECK_THAT(read_file("/tmp/bundled.tar"), !Catch::Contains("Se-cret"));
}

TEST_CASE(
    "systemd: a start that waits for the name service ends after 20 s with the reason, and is tried again") {
  write_file("/usr/local/lib/slow_names.so", read_file(SLOW_NAMES), 0755);
  const instance hub("nameless",
                     settings_for(cluster::shared().new_database()) + "allow = [\"user:root\"]\n");
  hub.drop_in(hub.unit(),
              "[Service]\nEnvironment=LD_PRELOAD=/usr/local/lib/slow_names.so\nEnvironment=SLOW_NAMES=/etc/"
              "pgwake/slow\n");
  write_file("/etc/pgwake/slow", "", 0644);
  command_ok({"systemctl", "start", "--no-block", hub.unit()});
  const auto words = "the settings are not read after 20 s";
  CHECK(eventually(at_load(40s), [&] { return journal(hub.unit()).find(words) != std::string::npos; }));
  std::filesystem::remove("/etc/pgwake/slow");
  CHECK(eventually(at_load(20s), [&] { return hub.status_text().starts_with("healthy"); }));
  CHECK(property(hub.unit(), "NRestarts") != "0");
}

// One transaction, as at a shutdown: `systemctl restart A B` asks for two, and the first may begin before the second.
TEST_CASE("systemd: a restart of PostgreSQL and hub together stops the hub first and starts it last") {
  cluster server;
  const auto data = server.data_directory();
  const auto database = server.conninfo();
  server.stop();
  // Debian's clusters would start with the name, on a port that other hosts share.
  std::filesystem::create_directories("/etc/systemd/system-generators");
  std::filesystem::create_symlink("/dev/null", "/etc/systemd/system-generators/postgresql-generator");
  write_file("/etc/systemd/system/postgresql.service",
             "[Service]\nType=notify\nUser=" + server_account() + "\nExecStart=" + folder_of_postgres() +
                 "/postgres -D " + data + "\nKillMode=mixed\nKillSignal=SIGINT\n");
  const instance hub("ordered", "database = \"" + database + "\"\n");
  write_file("/etc/systemd/system/both.target", "[Unit]\nWants=postgresql.service " + hub.unit() + "\n");
  for (const auto& unit : {std::string("postgresql.service"), hub.unit()})
    hub.drop_in(unit, "[Unit]\nPartOf=both.target\n");
  command_ok({"systemctl", "start", "both.target"});
  REQUIRE(hub.healthy());
  const auto pid = hub.pid();
  command_ok({"systemctl", "restart", "both.target"});
  CHECK(hub.pid() != pid);
  REQUIRE(hub.healthy());
  auto worker = hub.connect();
  worker.subscribe("c");
  const auto log = journal(hub.unit());
  INFO(log);
  // It was never without a server that should have been there.
  for (const char* trouble : {"event=\"upstream lost\"", "event=\"upstream attempt failed\""})
    CHECK(log.find(trouble) == std::string::npos);
  command_ok({"systemctl", "stop", "both.target"});
  for (const auto* made : {"both.target", "postgresql.service", "postgresql.service.d",
                           "../system-generators/postgresql-generator"})
    std::filesystem::remove_all(std::string("/etc/systemd/system/") + made);
}
