#include <catch2/catch.hpp>

#include "unit/client/failover_rig.hpp"

using namespace pgwake;
using client::policy;
using pgwake::test::failover_rig;
using pgwake::test::with;

TEST_CASE("C1: a subscribe is answered by the ack of the side that serves, in time or not at all") {
  failover_rig r;
  r.start();
  CHECK(r.did("connect"));
  r.subscribe(1, "c", millis{1'000});
  CHECK(r.seen().empty());
  r.hub_up();
  CHECK(r.did("sub c"));
  r.hub_acks("c");
  CHECK(r.seen() == "ok 1");
  r.subscribe(2, "c");
  CHECK(r.seen() == "ok 2");  // active already
  r.subscribe(3, "d", millis{1'000});
  r.words();
  r.pass(millis{999});
  CHECK(r.seen().empty());
  r.pass(millis{2});
  CHECK(r.words() == std::vector<std::string>{"timeout 3", "forget d", "unsub d"});
  r.hub_acks("d");
  r.hub_wakes("d", "late");
  CHECK(r.seen().empty());
  CHECK(r.core.channels() == 1);
}

TEST_CASE("C1: while the hub is ill an acked channel is not as good as subscribed; its next ack is") {
  failover_rig r;
  r.on_hub({"c"});
  r.hub_says(false);
  r.words();
  r.subscribe(1, "c");
  CHECK(r.words() == std::vector<std::string>{"sub c"});
  r.hub_says(true);
  CHECK(r.seen() == "#hub");
  r.hub_acks("c");
  CHECK(r.seen() == "ok 1");
}

TEST_CASE("C1: a nack is the caller's error and never a reason to fall back") {
  failover_rig r;
  r.on_hub({});
  for (const auto& bad : {std::string(), std::string(64, 'x'), std::string("pgwake.fence")}) {
    r.subscribe(1, bad);
    CHECK(r.words() == std::vector<std::string>{"nack 1"});
  }
  r.subscribe(2, "c");
  nack n;
  n.q.text = "c";
  n.why = code::forbidden;
  r.core.hub_message(n, r.now, r.out);
  CHECK(r.seen() == "nack 2");
  CHECK(r.core.channels() == 0);
  CHECK(r.core.source() == client::side::hub);
}

TEST_CASE(
    "C1 S4: a name that is not UTF-8 fits no frame: refused at once, whoever serves, unless that is the "
    "server") {
  const std::string latin = "caf\xE9";
  const auto refused = [&](failover_rig& r) {
    r.words();
    r.subscribe(1, latin);
    REQUIRE(r.out.size() == 1);
    const auto* a = std::get_if<client::answered>(&r.out.front());
    REQUIRE(a != nullptr);
    CHECK(a->request == 1);
    CHECK(a->how.how == client::answer::verdict::nack);
    CHECK(a->how.why == code::invalid_channel);
    CHECK(a->how.reason.find("UTF-8") != std::string::npos);
    CHECK(r.core.channels() == 0);
  };
  failover_rig new_one;
  new_one.start();
  refused(new_one);
  failover_rig with_hub;
  with_hub.on_hub({});
  refused(with_hub);
  failover_rig on_its_own;
  on_its_own.on_own({"c"});
  on_its_own.unsubscribe("c");
  refused(on_its_own);
  failover_rig polling(with([](auto& s) { s.policy = policy::poll; }));
  polling.start();
  polling.hub_refuses();
  refused(polling);
  failover_rig direct(with([](auto& s) { s.policy = policy::direct; }));
  direct.start();
  direct.subscribe(1, latin);
  CHECK(direct.did("want " + latin));
}

TEST_CASE("C2 C5: the hub is lost: own connection at once, whole set, one gap on each channel") {
  failover_rig r;
  r.on_hub({"a", "b"});
  r.hub_wakes("a", "1");
  CHECK(r.seen() == "a=1");
  r.hub_gone();
  auto asked = r.words();  // the hub is asked once more, at once
  CHECK(std::count(asked.begin(), asked.end(), "connect") == 1);
  CHECK(std::count(asked.begin(), asked.end(), "own+") == 0);
  r.hub_refuses();
  const auto did = r.words();
  CHECK(std::count(did.begin(), did.end(), "own+") == 1);
  CHECK(std::count(did.begin(), did.end(), "want a") == 1);
  CHECK(std::count(did.begin(), did.end(), "want b") == 1);
  r.own_live();
  r.own_activates("b");
  r.own_activates("a");
  r.own_wakes("a", "2");
  CHECK(r.seen() == "#own? b!hub_lost a!hub_lost #own a=2");
}

TEST_CASE("C2: a failed fallback is not final, and the hub is asked again all the time") {
  failover_rig r;
  r.start();
  r.hub_refuses();
  r.subscribe(1, "c");
  CHECK(r.did("own+"));
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    r.pass(millis{1'000});
    for (const auto& w : r.words()) {
      if (w != "connect") continue;
      ++asked;
      r.hub_refuses();
    }
    r.core.own_trouble("refused " + std::to_string(i), r.now, r.out);
  }
  CHECK(asked > 40);
  CHECK(asked < 120);
  while (!r.did("connect")) r.pass(millis{100});
  r.hub_up();
  CHECK(r.core.source() == client::side::hub);
  CHECK(r.did("own-"));
  r.hub_acks("c");
  CHECK(r.seen() == "ok 1");
}

TEST_CASE("C4: a hub that accepts again at once is preferred to an own connection") {
  failover_rig r;
  r.on_hub({"c"});
  r.pass(millis{20'000}, false);
  r.hub_says(true);
  r.words();
  r.hub_gone();
  CHECK(r.did("connect"));
  r.pass(millis{100});
  r.hub_up();
  r.hub_acks("c");
  CHECK(r.seen() == "#hub? c!hub_lost #hub");
  CHECK(r.core.counts().falls == 0);
}

TEST_CASE("C4: ill health is borne with for the grace, and a little that differs") {
  failover_rig r;
  r.on_hub({"c"});
  r.hub_says(false);
  r.words();
  for (int i = 0; i < 14; ++i) {
    r.pass(millis{1'000});
    r.hub_says(false);
  }
  CHECK_FALSE(r.did("own+"));
  for (int i = 0; i < 5; ++i) {
    r.pass(millis{1'000});
    r.hub_says(false);
  }
  CHECK(r.did("own+"));
  r.own_live();
  const auto did = r.words();
  CHECK(std::count(did.begin(), did.end(), "close") == 1);
  r.own_activates("c");
  CHECK(r.seen() == "c!hub_lost #own");
}

TEST_CASE("C4: silence for three heartbeats, judged only after a quiet read pass") {
  failover_rig r;
  r.on_hub({"c"});
  r.pass(millis{14'900});
  CHECK(r.core.source() == client::side::hub);
  r.pass(millis{1'500}, false);
  CHECK(r.core.source() == client::side::hub);
  r.pass(millis{1});
  CHECK(r.core.source() == client::side::none);
}

TEST_CASE("C3: poll and none answer at once while degraded, and announce one gap once served") {
  for (const auto p : {policy::poll, policy::none}) {
    auto s = failover_rig::defaults();
    s.policy = p;
    failover_rig r(s);
    r.start();
    r.subscribe(1, "early");
    CHECK(r.seen().empty());  // the first attempt is not over
    r.hub_refuses();
    CHECK(r.seen() == "ok 1 #none?");
    r.subscribe(2, "c");
    CHECK(r.seen() == "ok 2");
    r.pass(millis{2'000}, false);
    const auto seen = r.seen();
    CHECK((seen.find("c") != std::string::npos) == (p == policy::poll));
    r.core.tick(r.now, true, r.out);
    r.pass(millis{2'000});
    r.hub_up();
    r.words();
    r.hub_acks("c");
    r.hub_acks("early");
    CHECK(r.seen() == "c!hub_lost early!hub_lost #hub");
    CHECK_FALSE(r.did("own+"));
  }
}

TEST_CASE("C3: direct never asks the hub") {
  auto r = with([](client::failover_settings& s) { s.policy = policy::direct; });
  r.start();
  CHECK(r.words().empty());  // and opens nothing before something is subscribed
  r.subscribe(1, "c");
  CHECK(r.did("own+"));
  r.own_live();
  r.own_activates("c");
  r.pass(millis{60'000});
  const auto did = r.words();
  CHECK(std::count(did.begin(), did.end(), "ok 1") == 1);
  CHECK(std::count(did.begin(), did.end(), "connect") == 0);
}

TEST_CASE("C11: without a slot as under poll; with one, one gap; the slot goes with the connection") {
  auto r = with([](client::failover_settings& s) { s.limited = true; });
  r.on_hub({"c"});
  r.pass(millis{20'000}, false);
  r.hub_says(true);
  r.words();
  r.hub_gone();
  r.hub_refuses();
  CHECK(r.did("slot"));
  r.core.slot(false, "all in use", r.now, r.out);
  CHECK_FALSE(r.did("own+"));
  r.subscribe(1, "new");
  CHECK(r.seen() == "ok 1");
  CHECK_THAT(r.core.reason(), Catch::Contains("all in use"));
  int reminders = 0;
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    r.pass(millis{100});
    for (const auto& w : r.words()) {
      reminders += w == "c" ? 1 : 0;
      if (w == "connect") r.hub_refuses();
      if (w == "slot") {
        ++asked;
        r.core.slot(false, "all in use", r.now, r.out);
      }
    }
  }
  CHECK(reminders >= 4);
  CHECK(asked >= 8);
  r.pass(millis{1'000});
  r.words();
  r.core.slot(true, "", r.now, r.out);
  CHECK(r.did("own+"));
  r.own_live();
  r.own_activates("c");
  r.own_activates("new");
  CHECK(r.seen() == "#own? c!hub_lost new!hub_lost #own");
  r.core.stop(r.out);
  CHECK(r.did("-slot"));
}

TEST_CASE("closing answers whoever waits and ends both links") {
  failover_rig r;
  r.on_hub({"c"});
  r.subscribe(1, "d");
  r.words();
  r.core.stop(r.out);
  CHECK(r.words() == std::vector<std::string>{"ended 1", "close"});
}

TEST_CASE("C1: a nack after the ack: the application is told, and the subscription has ended") {
  failover_rig r;
  r.on_hub({"c", "d"});
  SECTION("on the hub") {
    r.hub_nacks("c");
    CHECK(r.seen() == "refused c");
    CHECK(r.core.channels() == 1);
    CHECK(r.core.healthy());
    r.hub_wakes("c", "1");
    r.hub_wakes("d", "1");
    CHECK(r.seen() == "d=1");
    r.subscribe(1, "c");
    CHECK(r.did("sub c"));
    r.hub_acks("c");
    CHECK(r.seen() == "ok 1");
  }
  SECTION("once only") {
    r.hub_nacks("c");
    r.hub_nacks("c");
    r.hub_nacks("stranger");
    CHECK(r.seen() == "refused c");
  }
  SECTION("on the way to an own connection: that is broken off, and does not listen to it any more") {
    r.hub_says(true, true);
    r.own_live();
    r.own_activates("c");
    r.own_activates("d");
    r.words();
    REQUIRE(r.core.handing_over());
    r.hub_nacks("c");
    CHECK_FALSE(r.core.handing_over());
    const auto did = r.words();
    CHECK(std::count(did.begin(), did.end(), "refused c") == 1);
    CHECK(std::count(did.begin(), did.end(), "unwant c") == 1);
    r.hub_wakes("d", "1");
    CHECK(r.seen() == "d=1");
  }
  SECTION("an answer to no question counts for none") {
    r.hub_acks("c");
    r.subscribe(1, "e");
    r.hub_nacks("stranger");
    r.hub_acks("d");
    r.pass(millis{2'900});
    CHECK(r.core.source() == client::side::hub);
    r.pass(millis{200});
    CHECK(r.core.source() != client::side::hub);  // it left the sub of e unanswered
  }
}
