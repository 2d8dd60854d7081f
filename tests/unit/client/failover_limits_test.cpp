#include <catch2/catch.hpp>

#include "unit/client/failover_rig.hpp"

using namespace pgwake;
using namespace pgwake::client;
using namespace pgwake::test;

// What a host or a server has too little of: channels of the hub, connections of the server.

TEST_CASE("C1: a hub at its limit is a reason to listen oneself: exactly, and nobody is told of an error") {
  failover_rig r;
  r.on_hub({"a"});
  r.subscribe(1, "b");
  r.words();
  r.hub_nacks("b", code::limit);
  auto did = r.words();
  CHECK(std::count(did.begin(), did.end(), "own+") == 1);
  CHECK(std::count(did.begin(), did.end(), "nack 1") == 0);
  r.hub_wakes("a", "1");
  CHECK(r.seen() == "a=1");  // the hub serves on meanwhile
  r.own_live();
  r.own_activates("a");
  r.own_activates("b");
  CHECK(r.core.handing_over());
  std::string said;
  for (const auto& w : r.words())
    if (w.rfind("say TOKEN:", 0) == 0) said = w.substr(4);
  REQUIRE_FALSE(said.empty());
  r.hub_fence(std::stoull(said.substr(6)));
  r.own_wakes("pgwake.fence", said);
  CHECK(r.core.source() == side::own);
  CHECK(r.core.counts().handovers == 1);
  CHECK(r.seen() == "ok 1 #own");
  r.own_wakes("b", "2");
  CHECK(r.seen() == "b=2");
}

TEST_CASE("C1: a hub at its limit, and nothing else to be had: the caller's error") {
  const bool poll = GENERATE(true, false);
  failover_rig r(poll ? with([](auto& s) { s.policy = policy::poll; })
                      : with([](auto& s) { s.limited = true; }));
  r.on_hub({"a"});
  r.subscribe(1, "b");
  r.words();
  r.hub_nacks("b", code::limit);
  if (!poll) {
    CHECK(r.did("slot"));
    r.core.slot(false, "all in use", r.now, r.out);
  }
  CHECK(r.did("nack 1"));
  CHECK(r.core.source() == side::hub);
  CHECK(r.core.healthy());
  CHECK(r.core.channels() == 1);
  r.pass(millis{5'000}, false);
  CHECK_FALSE(r.did("own+"));
}

TEST_CASE(
    "C1: a handle's channels are bounded: one more is refused by the library itself, the others go on") {
  failover_rig r(with([](auto& s) { s.max_channels = 3; }));
  r.on_hub({"a", "b", "c"});
  r.words();
  r.subscribe(1, "d");
  CHECK(r.did("nack 1"));
  CHECK_FALSE(r.did("own+"));  // it is no limit of the hub's
  CHECK(r.core.channels() == 3);
  r.subscribe(2, "a");  // one that it has
  CHECK(r.did("ok 2"));
  r.core.unsubscribe("c", r.now, r.out);
  r.words();
  r.subscribe(3, "d");
  r.hub_acks("d");
  CHECK(r.did("ok 3"));
  r.hub_wakes("d", "1");
  CHECK(r.seen().find("d=1") != std::string::npos);
}

TEST_CASE(
    "C2: an own connection is left to a hub that finds none, once, and had again if that was of no use") {
  failover_rig r;
  r.on_own({"c"});
  r.pass(millis{3'000}, false);
  r.hub_up(false);
  r.words();
  r.hub_is_full();
  r.pass(millis{4'001}, false);
  auto did = r.words();
  CHECK(std::count(did.begin(), did.end(), "own-") == 1);
  CHECK(std::count(did.begin(), did.end(), "sub c") == 1);
  CHECK(r.core.source() == side::hub);
  CHECK_FALSE(r.core.healthy());
  CHECK(r.core.reason().find("left to the hub") != std::string::npos);
  SECTION("the hub finds it") {
    r.hub_says(true);
    r.words();
    r.hub_acks("c");
    CHECK(r.seen() == "c!reconnect #hub");
  }
  SECTION("it does not") {
    r.pass(millis{10'000}, false);
    CHECK_FALSE(r.did("own+"));
    r.pass(millis{10'000}, false);
    CHECK(r.did("own+"));
    r.own_live();
    r.words();
    r.own_activates("c");
    CHECK(r.seen() == "c!reconnect #own");
    r.pass(millis{30'000}, false);
    CHECK(r.core.source() == side::own);
  }
}

TEST_CASE("C2: who has not got an own connection yet does not compete with a hub that finds none") {
  failover_rig r;
  r.on_hub({"c"});
  r.hub_gone();
  r.hub_refuses();
  REQUIRE(r.did("own+"));
  r.pass(millis{3'000}, false);
  r.hub_up(false);
  r.words();
  r.hub_is_full();
  CHECK(r.did("own-"));
}

TEST_CASE("C2: a hub that is ill for another reason, or finds its connection soon, gets none") {
  failover_rig r;
  r.on_own({"c"});
  r.pass(millis{3'000}, false);
  r.hub_up(false);
  r.pass(millis{10'000}, false);
  CHECK(r.core.source() == side::own);
  r.hub_is_full();
  r.hub_says(true);
  r.pass(millis{500}, false);
  CHECK(r.core.source() == side::own);
}

TEST_CASE("C2: a hub whose trouble is another one meanwhile is given no more time than any") {
  failover_rig r(with([](auto& s) { s.unhealthy_grace = millis{1'000}; }));
  r.on_own({"c"});
  r.pass(millis{3'000}, false);
  r.hub_up(false);
  r.hub_is_full();
  r.pass(millis{4'001}, false);
  REQUIRE(r.core.counts().yielded == 1);
  r.hub_says(false);  // the server is down, say
  r.words();
  r.pass(millis{1'251}, false);
  REQUIRE(r.did("own+"));
  r.own_live();
  r.own_activates("c");
  CHECK(r.core.source() == side::own);
  // It is full again, and gets the connection again.
  r.pass(millis{3'000}, false);
  r.hub_up(false);
  r.hub_is_full();
  r.pass(millis{4'001}, false);
  CHECK(r.core.counts().yielded == 2);
}

TEST_CASE("C11: how many connections the server has is kept over the hub's next life") {
  failover_rig r;
  r.on_hub({"c"});
  CHECK(r.core.hub().slots() == 0);
  status s;
  s.healthy = true;
  s.slots = 97;
  r.core.hub_message(s, r.now, r.out);
  CHECK(r.core.hub().slots() == 97);
  r.hub_gone();
  r.pass(millis{1'000}, false);
  r.hub_up();
  CHECK(r.core.hub().slots() == 97);
}

TEST_CASE("C3: who may not connect to the hub is told so for as long as an own connection serves instead") {
  failover_rig r;
  r.start();
  r.subscribe(1, "c");
  r.hub_denies();
  CHECK(r.core.reason().find("denied") != std::string::npos);
  r.own_live();
  r.own_activates("c");
  CHECK(r.core.source() == side::own);
  CHECK(r.core.healthy());
  CHECK(r.core.reason() == "denied");
  r.words();
  r.pass(millis{5'000}, false);
  r.hub_denies();
  CHECK(r.seen().empty());  // once
  SECTION("until it may") {
    r.pass(millis{5'000}, false);
    r.hub_up(false);
    CHECK(r.core.reason().empty());
  }
  SECTION("or there is no hub") {
    r.pass(millis{5'000}, false);
    r.hub_refuses();
    CHECK(r.core.reason().empty());
  }
}
