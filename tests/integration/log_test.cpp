// The log under fire: readers that have stopped, floods that workers cause, hostile names.
#include <fcntl.h>
#include <poll.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <sstream>

#include "daemon/io/log_writer.hpp"
#include "integration/rig.hpp"
#include "support/logfmt.hpp"

using namespace pgwake::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A pipe that is full already, so that nothing more goes in until somebody reads.
struct full_pipe {
  full_pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    const auto size = fcntl(ends[1], F_SETPIPE_SZ, 4096);
    const std::string filler(static_cast<std::size_t>(size) - 1, 'x');
    static_cast<void>(!::write(ends[1], (filler + "\n").data(), filler.size() + 1));
  }
  full_pipe(const full_pipe&) = delete;
  full_pipe& operator=(const full_pipe&) = delete;
  ~full_pipe() {
    for (const int fd : ends) close(fd);
  }
  std::string read_some() const {
    std::string all;
    std::array<char, 4096> block{};
    for (pollfd p{ends[0], POLLIN, 0}; poll(&p, 1, 2'000) > 0;) {
      const auto n = ::read(ends[0], block.data(), block.size());
      if (n <= 0) break;
      all.append(block.data(), static_cast<std::size_t>(n));
    }
    return all;
  }
  std::array<int, 2> ends{-1, -1};
};

std::string dropped_notice(std::uint64_t lines, std::uint64_t total) {
  return "dropped " + std::to_string(lines) + " of " + std::to_string(total) + "\n";
}

}  // namespace

TEST_CASE("the log never waits: with a reader of stderr that has stopped, the hub serves and stops in time") {
  const auto database = rig::pg().new_database();
  const full_pipe pipe;
  hub_daemon hub({.database = rig::pg().conninfo(database),
                  .wrapper = {"sh", "-c", "exec \"$0\" \"$@\" 2>&9"},
                  .descriptors = {{pipe.ends[1], 9}}});
  auto other = hub.connect_v1("other");
  other.subscribe("c");
  for (int i = 0; i < 100; ++i) {
    auto bad = hub.connect_v1(std::string(200, 'n'));
    bad.send_json("no JSON");
    CHECK(bad.expect("bye").code() == "protocol");
  }
  rig::pg().notify("c", "x", database);
  other.expect_wake("c", "x");
  other.until_pong();
  other.close();
  const auto begin = std::chrono::steady_clock::now();
  CHECK(hub.stop(10s) == 0);
  CHECK(std::chrono::steady_clock::now() - begin < at_load(8s));
}

TEST_CASE("the log never waits: what does not fit is counted, and said where it is missing") {
  const full_pipe pipe;
  pgwaked::log_writer out(pipe.ends[1], dropped_notice);
  const std::string line(99, 'y');
  const auto begin = std::chrono::steady_clock::now();
  std::size_t written = 0;
  while (written < 4 * pgwaked::log_writer::max_bytes) {
    out.write(line + "\n");
    written += line.size() + 1;
  }
  CHECK(std::chrono::steady_clock::now() - begin < at_load(5s));
  const auto dropped = out.dropped();
  CHECK(dropped > written / 100 / 2);
  CHECK_FALSE(out.close(50ms));
  const auto lines = lines_of(pipe.read_some());
  std::size_t kept = 0;
  std::size_t notices = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    kept += lines[i] == line ? 1 : 0;
    notices += lines[i] == "dropped " + std::to_string(dropped) + " of " + std::to_string(dropped) ? 1 : 0;
  }
  CHECK(kept + notices + 1 == lines.size());
  CHECK(notices == 1);
  CHECK(kept + dropped == written / 100);
}

TEST_CASE("the log never waits: a reader that is gone costs lines and nothing else") {
  std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  close(ends[0]);
  pgwaked::log_writer out(ends[1], dropped_notice);
  for (int i = 0; i < 10; ++i) out.write("line\n");
  CHECK(out.close(5s));
  CHECK(out.dropped() >= 10);
  close(ends[1]);
}

TEST_CASE("the log: all that was said is there when the hub has stopped") {
  rig r;
  CHECK(r.hub().stop() == 0);
  CHECK(r.hub().logs("event=stopped"));
}

TEST_CASE("the log: a flood of lines that a worker causes is thinned and counted") {
  const std::string kind = GENERATE(as<std::string>(), "bad frames", "control");
  rig r;
  constexpr int many = 300;
  auto worker = r.worker();
  for (int i = 0; i < many; ++i) {
    if (kind == "control") {
      worker.send_json(R"({"t":"control","do":"fly","arg":")" + std::string(10'000, 'x') + "\"}");
      worker.expect("control");
    } else {
      auto bad = r.worker();
      bad.send_json("no JSON");
      bad.expect("bye");
    }
  }
  CHECK(r.hub().stop() == 0);  // says what was left out
  const auto log = r.hub().log();
  const std::string event = kind == "control" ? "event=\"control refused\"" : "event=\"worker dismissed\"";
  std::size_t left_out = 0;
  for (const auto& line : lines_of(log)) {
    const auto parsed = logfmt(line);
    REQUIRE(parsed);
    if (parsed->at("event") == "log lines left out") left_out += std::stoul(parsed->at("lines"));
  }
  CHECK(count_of(log, event) + left_out >= many);
  CHECK(left_out > many / 2);
  CHECK(log.size() < 100'000);
}

TEST_CASE("the log: every line parses, as logfmt or as JSON, whatever happens and whoever connects") {
  const bool json = GENERATE(false, true);
  rig r(
      {.arguments = {"--log-format", json ? "json" : "text", "--log-level", "trace"}, .through_proxy = true});
  auto worker = r.worker("x\" level=error \\\n\u202e=");
  worker.subscribe("a \"c\" = \\ \n");
  auto bad = r.worker("\u2028");
  bad.send_json(R"({"t":"control","do":"a\" uid=0 b=\"","arg":"\\\n"})");
  bad.expect("control");
  bad.send_json("no JSON");
  bad.expect("bye");
  r.notify("a \"c\" = \\ \n", "a secret payload");
  worker.expect("wake");
  REQUIRE(r.terminate());
  worker.expect("wake", "a \"c\" = \\ \n", 10s);
  r.proxy().refuse();
  r.proxy().reset_all();
  REQUIRE(r.hub().await_health(false, 5s));
  r.hub().child().signal(SIGHUP);
  REQUIRE(r.hub().child().wait_for_err("reloaded", 5s));
  CHECK(r.hub().stop() == 0);
  const auto log = r.hub().log();
  for (const auto& line : lines_of(log)) {
    INFO(line);
    rapidjson::Document doc;
    if (json) {
      REQUIRE_FALSE(doc.Parse(line.c_str()).HasParseError());
      CHECK(doc.HasMember("event"));
      CHECK(doc["time"].GetStringLength() == std::string("2026-11-30T14:15:00.123+01:00").size());
    } else {
      const auto parsed = logfmt(line);
      REQUIRE(parsed);
      CHECK(parsed->contains("event"));
      CHECK(parsed->at("time").size() == std::string("2026-11-30T14:15:00.123+01:00").size());
    }
  }
  CHECK_FALSE(has(log, "secret payload"));
  // The level was such that a payload could have been there.
  const std::vector<std::string> expected =
      json ? std::vector<std::string>{R"("event":"notification","channel":"a \"c\" = \\ \n","bytes":16)",
                                      R"("event":"frame","worker":)",
                                      R"("event":"upstream sends","statement":"LISTEN")",
                                      R"("event":"channel active","channel":"a \"c\")"}
           : std::vector<std::string>{R"(event=notification channel="a \"c\" = \\ \n" bytes=16)",
                                      "event=frame worker=", R"(event="upstream sends" statement=LISTEN)",
                                      R"(event="channel active" channel="a \"c\")"};
  for (const auto& part : expected) CHECK_THAT(log, Catch::Contains(part));
}
