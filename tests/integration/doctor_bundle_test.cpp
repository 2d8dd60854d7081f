// `pgwaked doctor --bundle`: the archive as tar unpacks it.
#include <rapidjson/document.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>

#include "integration/rig.hpp"

using namespace pgwake::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool is_json_object(const std::string& text) {
  rapidjson::Document doc;
  doc.Parse(text.c_str());
  return doc.IsObject();
}

}  // namespace

TEST_CASE("doctor --bundle writes what support needs, and no secret of settings, files or environment") {
  auto& pg = cluster::shared();
  const temp_dir folder;
  const auto database = pg.new_database();
  const auto port = std::to_string(random_port());
  const std::vector<std::string> secrets = {"Of-The-String", "of \"the\" key",     "metrics-token-0123456789",
                                            "of:the:file",   "Of-The-Environment", "of-the-application",
                                            "in-a-url"};
  write_file(folder / "token", secrets[2] + "\n", 0600);
  write_file(folder / "pass", "*:*:*:*:of\\:the\\:file\n", 0600);
  write_file(folder / "hub.toml",
             "database = \"" + pg.conninfo(database) + " password=" + secrets[0] +
                 " sslpassword='of \\\"the\\\" key'\"\nsocket = \"" + (folder / "s") +
                 "\"\nmax_workers = 64\n" + "metrics_listen = \"127.0.0.1:" + port +
                 "\"\nmetrics_token_file = \"" + (folder / "token") + "\"\n",
             0600);
  process hub(pgwaked_command({"run", "--config", folder / "hub.toml"}));
  REQUIRE(hub.wait_for_err("upstream connected", at_load(10s)));
  // A worker can call itself what it likes.
  raw_worker worker(folder / "s");
  worker.send_json(R"({"t":"hello","v":1,"name":"puma of \"the\" key Of-The-String"})");
  worker.expect("welcome");

  const auto doctor = [&](const std::string& file) {
    auto job = pgwaked_command({"doctor", "--config", folder / "hub.toml", "--bundle", file});
    job.env = {{"PGPASSFILE", folder / "pass"},
               {"PGPASSWORD", secrets[4]},
               {"APP_SECRET", secrets[5]},
               {"DATABASE_URL", "postgres://app:in-a-url@db/shop"}};
    job.mask = 0;
    return run(std::move(job), at_load(30s));
  };
  const auto result = doctor(folder / "b.tar");
  INFO(result.out << result.err);
  CHECK(result.exit_code <= 1);
  CHECK(has(result.err, "wrote " + (folder / "b.tar")));
  struct stat is {};
  REQUIRE(stat((folder / "b.tar").c_str(), &is) == 0);
  CHECK((is.st_mode & 07777U) == 0600U);
  const auto bytes = read_file(folder / "b.tar");
  for (const auto& secret : secrets) {
    INFO(secret);
    CHECK_FALSE(has(bytes, secret));
  }
  CHECK_FALSE(has(bytes, R"(of \"the\" key)"));

  run_ok({.argv = {"tar", "xf", folder / "b.tar", "-C", folder.path()}});
  const auto file = [&](const char* name) { return read_file(folder / "pgwaked-bundle/" + name); };
  CHECK(is_json_object(file("doctor.json")));
  CHECK(has(file("doctor.txt"), "Connection budget"));
  CHECK(is_json_object(file("status.json")));
  CHECK(has(file("status.json"), "puma"));
  CHECK(has(file("config.toml"), "metrics_listen = \"127.0.0.1:" + port));
  CHECK(has(file("config.toml"), "***"));
  CHECK(has(file("limits.txt"), "Max open files"));
  CHECK(has(file("limits.txt"), "VmRSS"));
  CHECK(has(file("metrics.txt"), "\npgwaked_workers{"));
  CHECK(has(file("versions.txt"), "\nserver PostgreSQL "));
  CHECK(has(file("versions.txt"), "\nlibpq 1"));
  CHECK(has(file("README.txt"), "metrics.txt"));
  for (const char* name : {"unit.txt", "journal.txt"}) CHECK(has(file(name), "(not here: "));

  // What is there is left alone, be it only a link that leads nowhere.
  CHECK(symlink("/nonexistent/x", (folder / "link.tar").c_str()) == 0);
  for (const auto& path :
       {folder / "b.tar", folder / "link.tar", folder / "b.tar.gz", folder / "none/b.tar", std::string()}) {
    const auto again = doctor(path);
    INFO(path << "\n" << again.err);
    CHECK(again.exit_code == 2);
    CHECK(again.out.empty());
    CHECK(has(again.err, "pgwaked doctor: --bundle " + path));
  }
  CHECK(read_file(folder / "b.tar") == bytes);
}

TEST_CASE("doctor --bundle says of each part that cannot be had why, and is written all the same") {
  const temp_dir folder;
  const auto result = run(pgwaked_command({"doctor", "--socket", folder / "none", "--database",
                                           "host=/nonexistent", "--json", "--bundle", folder / "b.tar"}),
                          at_load(30s));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 2);
  CHECK(is_json_object(result.out));
  run_ok({.argv = {"tar", "xf", folder / "b.tar", "-C", folder.path()}});
  for (const char* name : {"status.json", "unit.txt", "journal.txt", "limits.txt", "metrics.txt"}) {
    INFO(name);
    CHECK(has(read_file(folder / "pgwaked-bundle/" + name), "(not here: "));
  }
  CHECK(has(read_file(folder / "pgwaked-bundle/doctor.txt"), "failure"));
}
