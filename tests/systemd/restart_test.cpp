// Restarts under load, with workers that use the client library.
#include <atomic>
#include <catch2/catch.hpp>
#include <list>
#include <sstream>
#include <thread>

#include "systemd/host.hpp"

using namespace pgwake::test;

namespace {

constexpr int workers = 6;

process listener(const instance& hub, const std::string& database) {
  process_options options{{"pgwaked", "listen", "--json", "--socket", hub.socket(), "--database",
                           cluster::shared().conninfo(database), "numbers"}};
  options.env = {{"PGWAKE_RETURN_DELAY", "200ms"}};
  return process(std::move(options));
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Every number up to `last` once, in order.
void check_numbers(const std::string& out, int last) {
  std::istringstream lines(out);
  int expected = 1;
  const std::string mark = R"("payload":")";
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(mark);
    if (at == line.npos) continue;
    REQUIRE(std::stoi(line.substr(at + mark.size())) == expected);
    ++expected;
  }
  CHECK(expected == last + 1);
}

}  // namespace

TEST_CASE("systemd: restarts under load lose nothing, double nothing, and announce no gap") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("restarted", "database = \"" + db.conninfo(database) + "\"\n");
  const bool activated = GENERATE(false, true);
  CAPTURE(activated);
  if (activated) command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  std::list<process> all;
  for (int i = 0; i < workers; ++i) all.push_back(listener(hub, database));
  for (auto& each : all) REQUIRE(each.wait_for_out("subscribed", 10s));

  std::atomic<bool> go_on{true};
  int last = 0;
  std::thread publisher([&] {
    auto connection = db.connect(database);
    while (go_on) connection.notify("numbers", std::to_string(++last));
  });
  for (int round = 1; round <= 3; ++round) {
    const auto pid = hub.pid();
    command_ok({"systemctl", "restart", hub.unit()});
    CHECK(hub.pid() != pid);
    // All of them back on the hub, so that the next restart finds them there.
    CHECK(eventually(15s, [&] {
      const auto text = hub.status_text();
      return text.starts_with("healthy, " + std::to_string(workers) + " workers") &&
             db.census("pgwake-fallback@%") == 0;
    }));
  }
  go_on = false;
  publisher.join();
  db.notify("numbers", "", database);  // a durable one behind them
  for (auto& each : all) {
    REQUIRE(each.wait_for_out(R"("payload":null)", 10s));
    check_numbers(each.out(), last);
    CHECK(count(each.out(), R"("gap":)") == 0);
    CHECK(count(each.out(), R"("source":"own")") > 0);  // it did change sides
  }
  CHECK(last > 100);
}
