#include <catch2/catch.hpp>

#include <list>

#include "integration/client_rig.hpp"
#include "support/background.hpp"

using namespace pgwake::test;

namespace {

process program(client_rig& r, std::vector<std::string> argv) {
  return process({.argv = std::move(argv),
                  .env = {{"PGWAKE_SOCKET", r.hub().socket()},
                          {"PGWAKE_DATABASE", r.conninfo()},
                          {"PGWAKE_RETURN_DELAY", "200ms"}}});
}

std::string rows(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += std::to_string(i) + " order\n";
  return text;
}

}  // namespace

TEST_CASE(
    "the pattern without a race, in C and C++: each row once and in order, whatever happens to hub and "
    "sessions") {
  client_rig r;
  r.host().sql(read_file(PGWAKE_SOURCE_DIR "/examples/cursor.sql"));
  r.host().sql("INSERT INTO orders (what) VALUES ('order'), ('order')");
  auto c = program(r, {EXAMPLES "/cursor_c"});
  auto cpp = program(r, {EXAMPLES "/cursor_cpp"});
  int count = 2;
  // Before the program has read, or while it does.
  for (; count < 100; ++count) r.host().sql("INSERT INTO orders (what) VALUES ('order')");
  const auto both = [&](milliseconds patience) {
    const auto wanted = rows(count);
    const bool in_time = eventually(patience, [&] { return c.out() == wanted && cpp.out() == wanted; });
    CHECK(c.out() == wanted);
    CHECK(cpp.out() == wanted);
    return in_time;
  };
  REQUIRE(both(10s));
  r.hub().kill();
  for (; count < 200; ++count) r.host().sql("INSERT INTO orders (what) VALUES ('order')");
  REQUIRE(both(10s));
  r.hub().start();
  for (; count < 300; ++count) r.host().sql("INSERT INTO orders (what) VALUES ('order')");
  REQUIRE(both(10s));
  // Every session but the test's own: the hub's, and those that the programs read with.
  rig::pg().exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" +
                 r.host().database() + "' AND application_name <> 'pgwake-test'");
  std::list<background> writers;
  for (int w = 0; w < 4; ++w)
    writers.emplace_back([&r](const auto&) {
      auto to = r.host().publisher();
      for (int i = 0; i < 50; ++i)
        to.exec("INSERT INTO orders (what) SELECT 'order' FROM generate_series(1, 3)");
    });
  for (auto& w : writers) w.join();
  count += 4 * 50 * 3;
  REQUIRE(both(20s));
  CHECK(c.running());
  CHECK(cpp.running());
}

TEST_CASE("C8: the pre-fork example: a master that opened before forking, one worker for each child") {
  client_rig r;
  auto p = program(r, {EXAMPLES "/prefork", "4", "jobs"});
  for (int i = 1; i <= 4; ++i) REQUIRE(p.wait_for_out("worker " + std::to_string(i) + " is subscribed", 10s));
  r.notify("jobs", "hello");
  for (int i = 1; i <= 4; ++i) CHECK(p.wait_for_out("worker " + std::to_string(i) + ": hello\n", 10s));
  CHECK(r.own_census() == 0);
  CHECK(r.host().census() == 1);
}
