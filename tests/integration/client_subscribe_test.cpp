#include <unistd.h>
#include <catch2/catch.hpp>

#include "integration/client_rig.hpp"

using namespace pgwake;
using namespace pgwake::test;

TEST_CASE("C1: subscribe returns when LISTEN is active, at the hub and on an own connection") {
  client_rig r;
  for (const char* policy : {"listener", "direct"}) {
    auto w = r.client({{"policy", policy}});
    for (int i = 0; i < 50; ++i) {
      const auto channel = "c" + std::to_string(i);
      REQUIRE(w.client().subscribe(channel, 10s));
      r.notify(channel, "x");
    }
    for (int i = 0; i < 50; ++i) REQUIRE(w.await_wake("c" + std::to_string(i), "x"));
    CHECK(w.gaps() == 0);
    CHECK(w.client().state().source ==
          (std::string_view(policy) == "direct" ? PGWAKE_SOURCE_OWN : PGWAKE_SOURCE_HUB));
  }
}

TEST_CASE(
    "C1: a deadline that passes leaves nothing subscribed, and does not make the client leave the hub") {
  client_rig r({.through_proxy = true});
  auto w = r.client();
  REQUIRE(w.client().subscribe("first", 10s));
  r.host().proxy().hold_query("LISTEN \"slow\"", 1'500ms);
  const auto took = time_of([&] { CHECK_FALSE(w.client().subscribe("slow", 300ms)); });
  CHECK(took >= 300ms);
  CHECK(took < at_load(1'200ms));
  CHECK(w.client().state().channels == 1);
  REQUIRE(w.client().subscribe("last", 10s));
  r.notify("slow", "unwanted");
  r.notify("last", "x");
  REQUIRE(w.await_wake("last", "x"));
  CHECK(w.count([](const seen& e) { return e.channel == "slow"; }) == 0);
  CHECK(w.client().state().source == PGWAKE_SOURCE_HUB);
  CHECK(r.own_census() == 0);
}

TEST_CASE("C1: a refusal is the caller's error and never a reason to fall back") {
  client_rig r({.arguments = {"--allow", "uid:" + std::to_string(::getuid()) + " ok*"}});
  auto w = r.client();
  for (const auto& name :
       {std::string(), std::string(64, 'x'), std::string("pgwake.fence"), std::string("forbidden")}) {
    INFO(name);
    try {
      w.client().subscribe(name, 10s);
      FAIL("it was not refused");
    } catch (const error& e) {
      CHECK(e.nack());
      CHECK_FALSE(std::string(e.what()).empty());
    }
  }
  REQUIRE(w.client().subscribe("ok", 10s));
  CHECK(w.client().state().channels == 1);
  CHECK(w.client().state().source == PGWAKE_SOURCE_HUB);
  CHECK(r.own_census() == 0);
}

TEST_CASE("C1 C10: ten thousand channels in one go") {
  client_rig r;
  auto w = r.client();
  std::vector<std::string> channels;
  for (int i = 0; i < 10'000; ++i) channels.push_back("many " + std::to_string(i));
  const auto took = time_of([&] { CHECK(w.client().subscribe(channels, 30s).empty()); });
  WARN("10,000 channels subscribed in " << took.count() << " ms");
  for (const int i : {0, 1, 4'999, 9'999}) {
    r.notify(channels[static_cast<std::size_t>(i)], "here");
    CHECK(w.await_wake(channels[static_cast<std::size_t>(i)], "here"));
  }
}

TEST_CASE("S8: unsubscribe drops what waits, and a later subscribe starts anew") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  REQUIRE(w.client().subscribe("d", 10s));
  for (int i = 0; i < 100; ++i) r.notify("c", std::to_string(i));
  r.notify("d", "after");
  REQUIRE(eventually(10s, [&] { return w.client().state().wakes >= 101; }));
  w.client().unsubscribe("c");
  w.client().unsubscribe("never subscribed");
  REQUIRE(w.await_wake("d", "after"));
  CHECK(w.count([](const seen& e) { return e.channel == "c"; }) == 0);
  REQUIRE(w.client().subscribe("c", 10s));
  r.notify("c", "new");
  REQUIRE(w.await_wake("c", "new"));
}

TEST_CASE("D6: payloads arrive byte for byte from either side; SQL_ASCII ones that are not UTF-8 too") {
  std::string odd = "</script>\r\n\\ \xe2\x80\xa8 \xf0\x9f\x90\x98 ";
  for (char c = 1; c < 32; ++c) odd += c;
  const auto big = std::string(7'999, 'p');
  for (const char* policy : {"listener", "direct"}) {
    client_rig r({.encoding = "SQL_ASCII"});
    auto w = r.client({{"policy", policy}});
    REQUIRE(w.client().subscribe("c", 10s));
    r.notify("c", odd);
    r.notify("c", big);
    r.host().sql("SELECT pg_notify('c', convert_from('\\xe9'::bytea, 'SQL_ASCII'))");
    CHECK(w.await_wake("c", odd));
    CHECK(w.await_wake("c", big));
    CHECK(w.await_wake("c", "\xe9"));
  }
}
