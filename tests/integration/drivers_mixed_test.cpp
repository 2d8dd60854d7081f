#include <catch2/catch.hpp>
#include <iostream>
#include <list>
#include <thread>

#include "integration/driver_clients.hpp"

// Many drivers' clients beside each other while hub and server are restarted and somebody goes on notifying.
using namespace pgwake::test;

namespace {

// Notifies `drivers` of 0, 1, 2 ... and connects again when its session was lost. A number whose COMMIT may
// have been lost with it is left out.
class stream {
 public:
  explicit stream(const cluster& pg) : pg_(pg) {}

  void publish() {
    try {
      if (!connection_) connection_.emplace(pg_.connect());
      connection_->notify("drivers", std::to_string(next_));
      published_.push_back(true);
      ++next_;
    } catch (const std::exception&) {
      if (connection_) {
        published_.push_back(false);
        ++next_;
      }
      connection_.reset();
    }
  }
  void publish_for(milliseconds time) {
    const auto until = clock::now() + time;
    while (clock::now() < until) {
      publish();
      std::this_thread::sleep_for(2ms);
    }
  }
  int next() const { return next_; }
  const std::vector<bool>& published() const { return published_; }

 private:
  const cluster& pg_;
  std::optional<connection> connection_{};
  int next_ = 0;
  std::vector<bool> published_{};
};

// Every number once and in order; where some are missing, the client was told that it had lost its connection and has
// listened again: before, or by postgres.js a moment later. Returns what is wrong.
std::string fault_of(const driver_client& c, const std::vector<bool>& published) {
  const bool late = std::string_view(c.name()) == "postgres.js";
  int last = -1;
  bool told = true;  // until its first, it may have missed any
  std::string untold;
  for (const auto& line : c.lines()) {
    if (!line.starts_with("got ")) {
      told = true;
      untold.clear();
      continue;
    }
    const int number = std::stoi(line.substr(4));
    if (number <= last) return "got " + std::to_string(number) + " after " + std::to_string(last);
    for (int n = last + 1; n < number && !told; ++n) {
      if (!published[static_cast<std::size_t>(n)]) continue;
      if (!late || !untold.empty()) return "missed " + std::to_string(n) + " and was not told";
      untold = "missed " + std::to_string(n) + " and was never told";
      told = true;
    }
    last = number;
    told = false;
  }
  return untold;
}

}  // namespace

TEST_CASE("P13, P18: 16 clients of 8 drivers miss nothing but at gaps that they are told of") {
  if (!in_full()) return;
  cluster pg;
  hub_daemon hub({.database = pg.conninfo(), .arguments = {"--front-door", "--drain-grace", "300ms"}});
  const auto door =
      "host=" + hub.socket().substr(0, hub.socket().rfind('/')) + " port=5432 user=app dbname=postgres";
  std::list<driver_client> clients;
  for (const auto* name :
       {"psycopg 3", "psycopg 2", "asyncpg", "ruby-pg", "node-postgres", "postgres.js", "DBD::Pg", "lib/pq"})
    for (int i = 0; i < 2; ++i) clients.emplace_back(driver_named(name), door);
  const auto all = [&](auto predicate) { return std::all_of(clients.begin(), clients.end(), predicate); };
  REQUIRE_EVENTUALLY(all([](const auto& c) { return c.ready() == 1; }), 20s);

  stream numbers(pg);
  const auto sessions = [&]() -> std::pair<int, int> {
    try {
      const int hubs = pg.census();
      return {hubs, pg.census("%")};
    } catch (const std::exception&) {  // the session that counts them was the restarted server's
      return {};
    }
  };
  // Ends when each has listened anew and got what was published since.
  const auto settled = [&](std::size_t times) {
    REQUIRE(eventually(30s, [&] {
      numbers.publish();
      return all([&](const auto& c) { return c.ready() >= times; });
    }));
    const auto mark = numbers.next();
    REQUIRE(eventually(20s, [&] {
      numbers.publish();
      return all([&](const auto& c) {
        const auto got = c.got();
        return !got.empty() && std::stoi(got.back()) >= mark;
      });
    }));
    // Beside the hub's session the stream's and that of this count: nobody has fallen back to the server.
    CHECK(eventually(10s, [&] { return sessions() == std::pair(1, 3); }));
  };
  settled(1);
  std::size_t times = 1;
  for (int round = 0; round < 3; ++round) {
    numbers.publish_for(500ms);
    hub.stop();
    numbers.publish_for(200ms);
    hub.start();
    settled(++times);
    numbers.publish_for(500ms);
    pg.restart(round == 1 ? stop_mode::immediate : stop_mode::fast);
    settled(++times);
  }
  for (const auto& c : clients) {
    INFO(c.name() << "\n" << c.said());
    CHECK(fault_of(c, numbers.published()) == "");
  }
  std::cerr << "published: " << numbers.next() << "\n";
}
