// The packages: what comes with them, and what stays when they go.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "support/files.hpp"
#include "systemd/host.hpp"

using namespace pgwake::test;
namespace fs = std::filesystem;

namespace {

std::set<std::string> files_of_the_machine() {
  std::set<std::string> found;
  for (const auto* top : {"/etc", "/usr", "/var/lib", "/run/pgwake", "/opt", "/srv"}) {
    std::error_code error;
    fs::recursive_directory_iterator it(top, fs::directory_options::skip_permission_denied, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      const auto path = it->path().string();
      if (path.starts_with("/var/lib/dpkg/") || path.starts_with("/var/lib/systemd/")) continue;
      found.insert(path);
    }
  }
  return found;
}

// By this host (systemd-host), and not by somebody on the machine whose files it sees.
bool written_here(const std::string& path) {
  return path.starts_with("/run/") || !fs::exists("/.written") ||
         fs::exists(fs::symlink_status("/.written" + path));
}

}  // namespace

TEST_CASE("package: install, upgrade, remove, install again, purge") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const auto before = files_of_the_machine();

  command_ok({"dpkg", "--install", package_file("pgwaked")});
  CHECK(command_ok({"getent", "passwd", "pgwake"}).find("/usr/sbin/nologin") != std::string::npos);
  CHECK(command_ok({"stat", "-c", "%a %U:%G", "/etc/pgwake"}) == "750 root:pgwake\n");
  CHECK_FALSE(fs::exists("/etc/systemd/system/multi-user.target.wants/pgwaked@.service"));
  CHECK(command_ok({"systemctl", "list-units", "--all", "--no-legend", "pgwaked@*"}).empty());
  // On the PATH of every user; where it was at first, too.
  for (const auto* program : {"/usr/bin/pgwaked", "/usr/sbin/pgwaked"})
    CHECK(command_ok({program, "--version"}) == "pgwaked " PGWAKE_TEST_VERSION "\n");

  write_file("/etc/pgwake/shop.toml", "database = \"" + db.conninfo(database) + "\"\ndrain_grace = \"1s\"\n",
             0640);
  command_ok({"chgrp", "pgwake", "/etc/pgwake/shop.toml"});
  command_ok({"systemctl", "enable", "--now", "pgwaked@shop"});
  const std::string unit = "pgwaked@shop.service";
  const auto healthy = [&] { return property(unit, "StatusText").starts_with("healthy"); };
  REQUIRE(eventually(10s, healthy));

  const auto pid = main_pid(unit);
  command_ok({"dpkg", "--install", package_file("pgwaked", "second")});
  CHECK(command_ok({"dpkg-query", "-W", "-f", "${Version}", "pgwaked"}) == PGWAKE_TEST_VERSION "-2");
  REQUIRE(eventually(10s, healthy));
  CHECK(main_pid(unit) != pid);
  CHECK(command_ok({"stat", "-c", "%a %U:%G", "/etc/pgwake/shop.toml"}) == "640 root:pgwake\n");

  command_ok({"dpkg", "--remove", "pgwaked"});
  CHECK(command({"systemctl", "is-active", unit}).out == "inactive\n");
  CHECK_FALSE(fs::exists("/usr/bin/pgwaked"));
  CHECK_FALSE(fs::exists("/run/pgwake"));
  CHECK(fs::exists("/etc/pgwake/shop.toml"));  // what the administrator wrote stays until purge

  command_ok({"dpkg", "--install", package_file("pgwaked")});
  REQUIRE(eventually(10s, healthy));  // it is enabled
  command_ok({"dpkg", "--purge", "pgwaked"});
  std::vector<std::string> left;
  for (const auto& path : files_of_the_machine())
    if (!before.contains(path) && written_here(path)) left.push_back(path);
  // The user stays, and with it the backups of the files that name it.
  for (const auto& path : left) CHECK_THAT(path, Catch::Matches("/etc/(passwd|group|shadow|gshadow)-?"));
}

TEST_CASE("package: installed again after its removal, enabled hubs and sockets start, others do not") {
  const auto settings = "database = \"" + cluster::shared().conninfo() + "\"\ndrain_grace = \"0s\"\n";
  const instance enabled("enabled", settings);
  const instance activated("activated", settings);
  const instance by_hand("byhand", settings);
  const instance refused("refused", "no_such_setting = 1\n");
  command_ok({"systemctl", "enable", enabled.unit(), activated.socket_unit(), refused.unit()});
  for (const auto* each : {&enabled, &by_hand}) each->start();
  command_ok({"systemctl", "start", activated.socket_unit()});
  command_ok({"dpkg", "--remove", "pgwaked"});
  CHECK_FALSE(can_connect(enabled.socket()));
  command_ok({"dpkg", "--install", package_file("pgwaked")});  // the one that cannot start fails nothing
  CHECK(enabled.healthy());
  CHECK(can_connect(activated.socket()));
  CHECK(property(by_hand.unit(), "ActiveState") == "inactive");
  CHECK(property(refused.unit(), "ActiveState") == "failed");
  // An upgrade leaves what is stopped.
  enabled.stop();
  command_ok({"dpkg", "--install", package_file("pgwaked", "second")});
  CHECK(property(enabled.unit(), "ActiveState") == "inactive");
  command_ok({"systemctl", "disable", enabled.unit(), activated.socket_unit(), refused.unit()});
  command_ok({"dpkg", "--install", package_file("pgwaked")});
}

TEST_CASE("package: an upgrade leaves a hub running whose settings the new version refuses, and says so") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const auto settings = "database = \"" + db.conninfo(database) + "\"\ndrain_grace = \"0s\"\n";
  const instance good("good", settings);
  const instance old("old", settings);
  for (const auto* each : {&good, &old}) {
    each->start();
    REQUIRE(each->healthy());
  }
  const auto good_pid = good.pid();
  const auto old_pid = old.pid();
  auto worker = old.connect();
  worker.subscribe("c");
  // What the running hub took at its start is unknown to the next version.
  old.settings(settings + "no_such_setting = 1\n");
  const auto said = command_ok({"dpkg", "--install", package_file("pgwaked", "second")});
  INFO(said);
  CHECK(good.healthy());
  CHECK(good.pid() != good_pid);
  CHECK(old.pid() == old_pid);
  db.notify("c", "still here", database);
  worker.expect_wake("c", "still here");
  CHECK_THAT(said, Catch::Contains("pgwaked@old.service was not restarted") &&
                       Catch::Contains("unknown setting no_such_setting") &&
                       Catch::Contains("systemctl restart pgwaked@old.service"));
  CHECK_THAT(said, !Catch::Contains("pgwaked@good.service was not restarted"));
  old.settings(settings);
  command_ok({"systemctl", "restart", old.unit()});
  CHECK(old.healthy());
  command_ok({"dpkg", "--install", package_file("pgwaked")});
}

TEST_CASE("package: a program is built with the library's packages, runs, and is told where symbols are") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("built", "database = \"" + db.conninfo(database) + "\"\n");
  hub.start();
  REQUIRE(hub.healthy());
  command_ok({"dpkg", "--install", package_file("libpgwake1"), package_file("libpgwake-dev"),
              package_file("libpgwake1-dbgsym"), package_file("pgwaked-dbgsym")});
  const temp_dir home;
  command_ok({"/bin/sh", "-c",
              "cc -Wall -Wextra -Werror -o " + home / "listen" +
                  " " PGWAKE_TEST_SOURCE "/examples/listen.c $(pkg-config --cflags --libs pgwake)"});
  CHECK_THAT(command_ok({"ldd", home / "listen"}),
             Catch::Contains("libpgwake.so.1 => /lib/x86_64-linux-gnu") ||
                 Catch::Contains("libpgwake.so.1 => /usr/lib"));
  process_options options{{home / "listen", "orders"}};
  options.env = {{"PGWAKE_SOCKET", hub.socket()}, {"PGWAKE_DATABASE", db.conninfo(database)}};
  process worker(std::move(options));
  REQUIRE(eventually(10s, [&] { return hub.status_text().starts_with("healthy, 1 workers, 1 channels"); }));
  CHECK(eventually(10s, [&] {
    db.notify("orders", "over the hub", database);
    return worker.out().find("over the hub") != std::string::npos;
  }));
  // gdb and perf find symbols by the build ID, which the packages must agree on.
  const auto notes = command_ok({"readelf", "-n", "/usr/bin/pgwaked"});
  const std::string mark = "Build ID: ";
  const auto id = notes.substr(notes.find(mark) + mark.size(), 40);
  CHECK(fs::exists("/usr/lib/debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug"));
  for (const auto* page : {"pgwaked.8", "pgwaked.toml.5", "pgwake-protocol.7", "pgwake.3"})
    CHECK(fs::exists("/usr/share/man/man" + std::string(1, page[std::string(page).size() - 1]) + "/" + page +
                     ".gz"));
}
