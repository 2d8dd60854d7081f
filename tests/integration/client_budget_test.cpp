#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <list>

#include "integration/client_rig.hpp"
#include "support/background.hpp"

using namespace pgwake;
using namespace pgwake::test;

TEST_CASE(
    "C11: fallback_limit bounds the own connections of all processes; the others are reminded, and one gap "
    "follows") {
  client_rig r;
  temp_dir slots;
  const client_values limited = {{"fallback_limit", "2"}, {"fallback_dir", slots / "slots"}};
  std::list<witness> all;
  for (int i = 0; i < 6; ++i) {
    all.emplace_back(r.hub().socket(), r.conninfo(), r.values(limited));
    REQUIRE(all.back().client().subscribe("c", 10s));
  }
  r.hub().kill();
  const auto holders = [&] {
    return std::count_if(all.begin(), all.end(), [](auto& w) { return w.client().state().own_slot != 0; });
  };
  const auto owners = [&] {
    return std::count_if(all.begin(), all.end(),
                         [](auto& w) { return w.client().state().source == PGWAKE_SOURCE_OWN; });
  };
  REQUIRE(eventually(10s, [&] { return owners() == 2 && holders() == 2; }));
  for (auto& w : all) {
    if (w.client().state().own_slot != 0) {
      CHECK(w.await_gap("c"));
      continue;
    }
    w.take();
    w.forget();
    CHECK(w.await([](const seen& e) { return e.durable() && e.source == PGWAKE_SOURCE_NONE; }));
    CHECK(time_of([&] { CHECK(w.client().subscribe("new", 10s)); }) < 1s);
    CHECK_THAT(std::string(w.client().state().reason), Catch::Contains("fallback_limit"));
  }
  CHECK(r.own_census() == 2);

  SECTION("a slot is freed when its holder goes: the next one takes it") {
    const auto gone =
        std::find_if(all.begin(), all.end(), [](auto& w) { return w.client().state().own_slot != 0; });
    all.erase(gone);
    REQUIRE(eventually(10s, [&] { return owners() == 2; }));
    CHECK(r.own_census() <= 2);
  }
  SECTION("and by the kernel when a process dies") {
    all.clear();
    REQUIRE(eventually(10s, [&] { return r.own_census() == 0; }));
    const pid_t pid = ::fork();
    if (pid == 0) {
      std::list<witness> mine;
      for (int i = 0; i < 2; ++i) {
        mine.emplace_back(r.hub().socket(), r.conninfo(), r.values(limited));
        if (!mine.back().client().subscribe("c", 10s)) ::_exit(1);
      }
      ::pause();
    }
    REQUIRE(eventually(10s, [&] { return r.own_census() == 2; }));
    witness w(r.hub().socket(), r.conninfo(), r.values(limited));
    CHECK(w.client().subscribe("c", 10s));
    w.take(500ms);
    CHECK(w.client().state().source == PGWAKE_SOURCE_NONE);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    CHECK(w.await_source(source::own, 10s));
  }
  SECTION("all are back when the hub is, each with one gap at most for what it missed") {
    r.hub().start();
    REQUIRE(r.hub().await_health());
    for (auto& w : all) {
      REQUIRE(w.await_source(source::hub));
      REQUIRE(w.await_gap("c"));
      r.notify("c", "x");
      REQUIRE(w.await_wake("c", "x"));
      CHECK(w.count([](const seen& e) { return e.channel == "c" && !e.gap.empty(); }) <= 1);
    }
    CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
  }
}

TEST_CASE("case 10: fifty workers lose the hub when the server has twenty free slots") {
  client_rig r;
  rig::pg().exec("DROP ROLE IF EXISTS twenty; CREATE ROLE twenty LOGIN CONNECTION LIMIT 20");
  temp_dir slots;
  const bool limited = GENERATE(false, true);
  INFO((limited ? "with a limit of 10" : "without a limit"));
  client_values more = {{"return_delay", "2s"}, {"poll_interval", "500ms"}};
  if (limited) more.insert(more.end(), {{"fallback_limit", "10"}, {"fallback_dir", slots / "slots"}});
  std::list<witness> all;
  for (int i = 0; i < 50; ++i) {
    all.emplace_back(r.hub().socket(), rig::pg().conninfo(r.host().database(), "twenty"), r.values(more));
    REQUIRE(all.back().client().subscribe("c", 10s));
  }
  r.hub().kill();
  const int most = limited ? 10 : 20;
  REQUIRE(eventually(20s, [&] { return r.own_census() == most; }));
  const auto until = clock::now() + 2s;
  while (clock::now() < until) {
    CHECK(r.own_census() <= most);
    std::this_thread::sleep_for(50ms);
  }
  r.hub().start();
  REQUIRE(r.hub().await_health());
  const auto back = clock::now();
  for (auto& w : all) CHECK(w.await_source(source::hub, 15s));
  CHECK(clock::now() - back < 10s);
  r.notify("c", "x");
  for (auto& w : all) CHECK(w.await_wake("c", "x"));
  CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
}
