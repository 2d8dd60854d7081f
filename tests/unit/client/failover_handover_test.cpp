#include <catch2/catch.hpp>

#include "unit/client/failover_rig.hpp"

using namespace pgwake;
using client::policy;
using pgwake::test::failover_rig;
using pgwake::test::with;

TEST_CASE("C6: the return: the old side before the fence, the new one after it, whichever passes it first") {
  failover_rig r;
  r.on_own({"c"});
  r.pass(millis{2'000});
  r.hub_up();
  r.pass(millis{1'100});
  CHECK(r.did("sub c"));
  CHECK(r.core.handing_over());
  r.own_wakes("c", "1");
  r.hub_wakes("c", "1");
  r.hub_acks("c");
  const auto did = r.words();
  const auto said =
      std::find_if(did.begin(), did.end(), [](const auto& w) { return w.rfind("say TOKEN:", 0) == 0; });
  REQUIRE(said != did.end());
  const auto payload = said->substr(4);
  const auto number = std::stoull(payload.substr(6));
  const bool hub_first = GENERATE(true, false);
  r.own_wakes("c", "2");
  if (hub_first) {
    r.hub_wakes("c", "2");
    r.hub_fence(number);
    r.hub_wakes("c", "3");
    r.hub_wakes("c", "4");
    CHECK(r.seen() == "c=2");
    r.own_wakes("pgwake.fence", payload);
    CHECK(r.seen() == "c=3 c=4 #hub");
    r.own_wakes("c", "3");
  } else {
    r.own_wakes("pgwake.fence", payload);
    r.own_wakes("c", "3");
    r.hub_wakes("c", "2");
    CHECK(r.seen() == "c=2");
    r.hub_fence(number);
    CHECK(r.seen() == "#hub");
    r.hub_wakes("c", "3");
    r.hub_wakes("c", "4");
    CHECK(r.seen() == "c=3 c=4");
  }
  CHECK(r.core.counts().handovers == 1);
  CHECK_FALSE(r.core.handing_over());
  r.hub_wakes("c", "5");
  CHECK(r.seen() == "c=5");
}

namespace {

// In the midst of a return, the fence said. Answers its number.
std::uint64_t fencing(failover_rig& r) {
  r.on_own({"c"});
  r.pass(millis{2'000});
  r.hub_up();
  r.pass(millis{1'100});
  r.hub_acks("c");
  r.words();
  REQUIRE(r.core.handing_over());
  return 1;
}
std::string mark(std::uint64_t n) { return "TOKEN:" + std::to_string(n); }

}  // namespace

TEST_CASE("C6: it breaks half-way and the old side lives: what was held of it is handed out, no gap") {
  failover_rig r;
  const auto n = fencing(r);
  r.own_wakes("c", "1");
  r.own_wakes("pgwake.fence", mark(n));
  r.own_wakes("c", "2");
  CHECK(r.seen() == "c=1");
  SECTION("the deadline") { r.pass(millis{5'000}, false); }
  SECTION("the hub is ill") { r.hub_says(false); }
  SECTION("the hub drains") { r.hub_says(true, true); }
  SECTION("the hub is lost") { r.hub_gone(); }
  SECTION("the hub refuses a channel") {
    nack x;
    x.q.text = "new";
    r.hub_gone();
  }
  CHECK(r.seen() == "c=2");
  r.own_wakes("c", "3");
  CHECK(r.seen() == "c=3");
  CHECK(r.core.counts().aborted == 1);
  CHECK_FALSE(r.core.handing_over());
}

TEST_CASE("C6: the fence could not be committed: the old side goes on") {
  failover_rig r;
  const auto n = fencing(r);
  r.own_wakes("c", "1");
  r.core.own_said(mark(n), false, r.now, r.out);
  r.own_wakes("c", "2");
  CHECK(r.seen() == "c=1 c=2");
  CHECK_FALSE(r.core.handing_over());
}

TEST_CASE("C6: what is held is bounded; over it the old side goes on") {
  auto r = with([](client::failover_settings& s) { s.handover_max_bytes = 10'000; });
  const auto n = fencing(r);
  r.own_wakes("pgwake.fence", mark(n));
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    r.own_wakes("c", std::string(1'000, 'x') + std::to_string(i));
    expected += (i ? " c=" : "c=") + std::string(1'000, 'x') + std::to_string(i);
  }
  CHECK(r.seen() == expected);
  CHECK(r.core.counts().aborted == 1);
}

TEST_CASE("C6: the old side is lost") {
  failover_rig r;
  const auto n = fencing(r);
  r.own_wakes("c", "1");
  SECTION("after its fence: the new one goes on from its own, exactly") {
    r.own_wakes("pgwake.fence", mark(n));
    r.own_wakes("c", "2");
    r.own_lost();
    r.hub_wakes("c", "1");
    CHECK(r.seen() == "c=1");
    r.hub_fence(n);
    r.hub_wakes("c", "2");
    CHECK(r.seen() == "#hub c=2");
    CHECK(r.core.counts().handovers == 1);
  }
  SECTION("before it, and the new one has passed: a gap, then what came after the fence") {
    r.hub_fence(n);
    r.hub_wakes("c", "3");
    r.own_lost();
    CHECK(r.seen() == "c=1 c!reconnect c=3 #hub");
  }
  SECTION("before it, on both sides: a cut in the hub's stream, then a gap") {
    r.own_lost();
    r.hub_wakes("c", "1");
    const auto did = r.words();
    const auto cut =
        std::find_if(did.begin(), did.end(), [](const auto& w) { return w.rfind("sub pgwake_cut", 0) == 0; });
    REQUIRE(cut != did.end());
    const auto first = cut->substr(4);
    r.hub_acks(first);
    r.hub_wakes("c", "2");
    const auto more = r.words();
    const auto again = std::find_if(more.begin(), more.end(),
                                    [](const auto& w) { return w.rfind("sub pgwake_cut", 0) == 0; });
    REQUIRE(again != more.end());
    CHECK(std::none_of(more.begin(), more.end(), [](const auto& w) { return w == "c=2"; }));
    r.hub_acks(again->substr(4));
    r.hub_wakes("c", "3");
    CHECK(r.seen() == "c!reconnect #hub c=3");
  }
}

TEST_CASE(
    "C6: a gap of the hub ahead of its fence: what it missed may lie on either side, the hand-over breaks") {
  failover_rig r;
  SECTION("to the hub: its own connection goes on, and nothing is missed") {
    const auto n = fencing(r);
    r.own_wakes("c", "1");
    r.own_wakes("pgwake.fence", mark(n));
    r.own_wakes("c", "2");
    // The hub's session was lost and is back. Its LISTEN's answer is read ahead of an older fence.
    r.hub_gap("c");
    CHECK_FALSE(r.core.handing_over());
    r.hub_fence(n);
    r.own_wakes("c", "3");
    CHECK(r.seen() == "c=1 c=2 c=3");
    CHECK(r.core.source() == client::side::own);
  }
  SECTION("to the hub, and the old side is gone: a gap") {
    const auto n = fencing(r);
    r.own_wakes("c", "1");
    r.own_wakes("pgwake.fence", mark(n));
    r.own_lost();
    r.hub_gap("c");
    r.hub_fence(n);
    CHECK_FALSE(r.core.handing_over());
    CHECK(r.core.counts().handovers == 0);
  }
  SECTION("from the hub: the gap is handed out, and the hub goes on") {
    r.on_hub({"c"});
    r.hub_says(true, true);
    r.own_live();
    r.own_activates("c");
    REQUIRE(r.did("say TOKEN:1"));
    r.hub_gap("c");
    CHECK(r.seen() == "c!reconnect");
    CHECK_FALSE(r.core.handing_over());
    r.own_wakes("pgwake.fence", mark(1));
    r.own_wakes("c", "1");
    r.hub_fence(1);
    r.hub_wakes("c", "1");
    CHECK(r.seen() == "c=1");
  }
  SECTION("behind the fence it is one event like another") {
    const auto n = fencing(r);
    r.hub_fence(n);
    r.hub_gap("c");
    r.hub_wakes("c", "2");
    r.own_wakes("pgwake.fence", mark(n));
    CHECK(r.seen() == "c!reconnect c=2 #hub");
    CHECK(r.core.counts().handovers == 1);
  }
}

TEST_CASE(
    "C6: a fence is believed only of the own session's backend: whoever repeats or foresees one cuts "
    "nothing") {
  failover_rig r;
  const auto n = fencing(r);
  constexpr int stranger = 666;
  r.own_wakes("c", "1");
  r.core.own_notification(stranger, "pgwake.fence", mark(n), r.now, r.out);
  r.hub_fence(n, stranger);
  r.own_wakes("c", "2");
  r.hub_wakes("c", "2");
  CHECK(r.seen() == "c=1 c=2");
  CHECK(r.core.handing_over());
  r.own_wakes("pgwake.fence", mark(n));
  r.own_wakes("c", "3");
  r.hub_wakes("c", "3");
  SECTION("the true one ends it") {
    r.hub_fence(n);
    CHECK(r.core.counts().handovers == 0 + 1);
  }
  SECTION("as one of a hub that does not tell whose it is") {
    r.hub_fence(n, 0);
    CHECK(r.core.counts().handovers == 1);
  }
}

TEST_CASE("C6: a fence has the number that was drawn for it, and no other") {
  std::uint64_t drawn = 0;
  auto s = failover_rig::defaults();
  s.secret = [&drawn] { return 0xF00D000000000000ULL + ++drawn; };
  failover_rig r(std::move(s));
  fencing(r);
  REQUIRE(drawn == 1);
  const auto number = 0xF00D000000000000ULL + drawn;
  r.own_wakes("pgwake.fence", mark(number));
  r.hub_fence(number - 1);
  CHECK(r.core.handing_over());
  r.hub_fence(number);
  CHECK(r.core.counts().handovers == 1);
}

TEST_CASE("C6: sub and unsub wait for the end of a hand-over") {
  failover_rig r;
  const auto n = fencing(r);
  r.subscribe(1, "new");
  r.unsubscribe("c");
  const auto during = r.words();
  CHECK(std::none_of(during.begin(), during.end(), [](const auto& w) {
    return w == "sub new" || w == "want new" || w == "unsub c" || w == "unwant c";
  }));
  r.own_wakes("c", "unwanted");
  r.own_wakes("pgwake.fence", mark(n));
  r.hub_fence(n);
  const auto after = r.words();
  CHECK(std::count(after.begin(), after.end(), "sub new") == 1);
  CHECK(std::count(after.begin(), after.end(), "unsub c") == 1);
  CHECK(std::count(after.begin(), after.end(), "c=unwanted") == 0);
  r.hub_acks("new");
  CHECK(r.seen() == "ok 1");
}

TEST_CASE(
    "C6: a channel that the own connection refuses on the way to the hub is waited for no longer, nor kept there") {
  failover_rig r;
  r.on_own({"c", "d"});
  r.pass(millis{2'000});
  r.hub_up();
  r.pass(millis{1'100});
  REQUIRE(r.core.handing_over());
  r.hub_acks("c");
  r.words();
  r.core.own_refused("d", code::forbidden, "no longer allowed", r.now, r.out);
  CHECK(r.did("say TOKEN:1"));
  r.hub_acks("d");  // asked for before
  r.own_wakes("pgwake.fence", "TOKEN:1");
  r.hub_fence(1);
  CHECK(r.core.source() == client::side::hub);
  CHECK(r.core.channels() == 1);
  CHECK(r.did("unsub d"));
}

TEST_CASE("C6: a hub of another database or cluster is not returned to") {
  failover_rig r;
  r.on_own({"c"});
  r.own_lost();
  r.own_live("another cluster");
  r.own_activates("c");
  r.pass(millis{2'000});
  r.hub_up();
  for (int i = 0; i < 20; ++i) {
    r.pass(millis{1'000});
    r.hub_says(true);
  }
  CHECK_FALSE(r.core.handing_over());
  CHECK(r.core.source() == client::side::own);
}

TEST_CASE("C7: a hub that drains is left exactly, and not asked again at once") {
  failover_rig r;
  r.on_hub({"a", "b"});
  r.hub_says(true, true);
  CHECK(r.did("own+"));
  r.hub_wakes("a", "1");
  r.own_live();
  r.own_activates("a");
  r.own_wakes("a", "1");
  CHECK(r.seen() == "a=1");
  r.own_activates("b");
  REQUIRE(r.did("say TOKEN:1"));
  r.hub_wakes("a", "2");
  r.own_wakes("a", "2");
  r.own_wakes("pgwake.fence", "TOKEN:1");
  r.own_wakes("a", "3");
  r.hub_fence(1);
  const auto did = r.words();
  CHECK(did == std::vector<std::string>{"a=2", "a=3", "close", "#own"});
  r.pass(millis{900});
  CHECK_FALSE(r.did("connect"));
  r.pass(millis{3'000});
  CHECK(r.did("connect"));
  CHECK(r.core.counts().falls == 0);
}

TEST_CASE("C7: it drains and is gone before the own connection is ready: a gap, and nothing twice") {
  failover_rig r;
  r.on_hub({"a", "b"});
  r.hub_says(true, true);
  r.own_live();
  r.own_activates("a");
  r.hub_wakes("a", "1");
  r.words();
  r.hub_gone();
  const auto did = r.words();
  const auto cut =
      std::find_if(did.begin(), did.end(), [](const auto& w) { return w.starts_with("say cut-"); });
  REQUIRE(cut != did.end());
  r.own_wakes("a", "1");  // the hub has delivered it
  r.own_activates("b");
  CHECK(r.seen().empty());
  r.own_wakes("pgwake.fence", cut->substr(4));
  r.own_wakes("a", "2");
  const auto seen = r.seen();
  CHECK(seen.find("a=1") == std::string::npos);
  CHECK(seen.find("a!hub_lost") < seen.find("a=2"));
  CHECK(seen.find("b!hub_lost") != std::string::npos);
}

TEST_CASE("C6: reattach=never: once left, the hub is left") {
  auto r = with([](client::failover_settings& s) { s.reattach = false; });
  r.on_own({"c"});
  r.pass(millis{60'000});
  CHECK_FALSE(r.did("connect"));
  r.own_lost();
  r.pass(millis{60'000});
  CHECK_FALSE(r.did("connect"));
  r.own_live();
  r.own_activates("c");
  CHECK(r.core.source() == client::side::own);
}
