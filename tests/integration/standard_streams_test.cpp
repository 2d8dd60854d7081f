// Commands whose standard input, output or error is closed or full.
#include <catch2/catch.hpp>

#include <filesystem>

#include "integration/rig.hpp"
#include "support/files.hpp"

using namespace pgwake::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// `pgwaked ARGUMENTS... REDIRECTION`, as a shell has it.
process_options with_streams(const std::string& redirection, std::vector<std::string> arguments) {
  auto job = pgwaked_command(std::move(arguments));
  const std::vector<std::string> shell = {"sh", "-c", "exec \"$0\" \"$@\" " + redirection};
  job.argv.insert(job.argv.begin(), shell.begin(), shell.end());
  return job;
}

}  // namespace

TEST_CASE("a closed standard stream is an absent one, and no descriptor takes its place") {
  rig r;
  const std::string all = "<&- >&- 2>&-";
  for (const auto& closed : {std::string(">&-"), std::string("<&- >&-"), all})
    for (const bool json : {true, false}) {
      std::vector<std::string> arguments = {"status", "--socket", r.hub().socket()};
      if (json) arguments.emplace_back("--json");
      CAPTURE(closed, json);
      CHECK(run(with_streams(closed, arguments), 10s).exit_code == 0);
    }
  CHECK_FALSE(has(r.hub().log(), "dismissed"));
  const auto healthy = run(
      pgwaked_command({"doctor", "--socket", r.hub().socket(), "--database", r.pg().conninfo(r.database())}),
      20s);
  CHECK(run(with_streams(
                ">&-", {"doctor", "--socket", r.hub().socket(), "--database", r.pg().conninfo(r.database())}),
            20s)
            .exit_code == healthy.exit_code);

  const temp_dir home;
  process second(
      with_streams(all, {"run", "--socket", home / "s", "--database", r.pg().conninfo(r.database())}));
  REQUIRE(eventually(10s, [&] { return can_connect(home / "s"); }));
  for (const char* number : {"0", "1", "2"}) {
    std::error_code error;
    CHECK(std::filesystem::read_symlink("/proc/" + std::to_string(second.pid()) + "/fd/" + number, error) ==
          "/dev/null");
  }
}

TEST_CASE("output that cannot be written is an error that is said") {
  rig r;
  const std::string socket = r.hub().socket();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--version"},
                                                    {"--help"},
                                                    {"run", "--help"},
                                                    {"config"},
                                                    {"status", "--socket", socket},
                                                    {"status", "--json", "--socket", socket},
                                                    {"control", "log-level", "info", "--socket", socket}}) {
    const auto result = run(with_streams(">/dev/full", arguments), 10s);
    CAPTURE(arguments.front());
    CHECK(result.exit_code == 1);
    CHECK(has(result.err, "cannot write to standard output"));
  }
}
