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
  CHECK(command_ok({"/usr/sbin/pgwaked", "--version"}) == "pgwaked " PGWAKE_TEST_VERSION "\n");

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
  CHECK_FALSE(fs::exists("/usr/sbin/pgwaked"));
  CHECK_FALSE(fs::exists("/run/pgwake"));
  CHECK(fs::exists("/etc/pgwake/shop.toml"));  // what the administrator wrote stays until purge

  command_ok({"dpkg", "--install", package_file("pgwaked")});
  command_ok({"systemctl", "start", "pgwaked@shop"});
  REQUIRE(eventually(10s, healthy));
  command_ok({"dpkg", "--purge", "pgwaked"});
  std::vector<std::string> left;
  for (const auto& path : files_of_the_machine())
    if (!before.contains(path)) left.push_back(path);
  // The user stays, and with it the backups of the files that name it.
  for (const auto& path : left) CHECK_THAT(path, Catch::Matches("/etc/(passwd|group|shadow|gshadow)-?"));
}
