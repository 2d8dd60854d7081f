#include <catch2/catch.hpp>

#include "client/src/core/hub_grace.hpp"

using namespace pgwake;
using namespace pgwake::client;

namespace {

const steady_time start{};

struct rig {
  rig() {
    hub.begin(start);
    hub.connected();
    hub.welcomed({}, 0, start);
  }
  void tell(bool healthy, bool full, steady_time now) {
    pgwake::status s;
    s.healthy = healthy;
    s.full = full;
    hub.told(s, now);
    grace.told(hub, random, now);
  }
  hub_life hub{failover_settings{}};
  jitter random{1};
  hub_grace grace{{millis{15'000}, millis{4'000}, millis{20'000}}};
};

}  // namespace

TEST_CASE(
    "C4: a hub that is ill is borne for the grace and up to a quarter more, counted from when it fell ill") {
  rig r;
  r.tell(false, false, start);
  const auto until = r.grace.until();
  CHECK(until >= start + millis{15'000});
  CHECK(until <= start + millis{18'750});
  CHECK_FALSE(r.grace.over(until - millis{1}));
  CHECK(r.grace.over(until));
  r.tell(false, false, start + millis{10'000});  // said again
  CHECK(r.grace.until() == until);
  r.tell(true, false, start + millis{11'000});
  r.tell(false, false, start + millis{12'000});  // ill again
  CHECK(r.grace.until() >= start + millis{27'000});
}

TEST_CASE("C5: an own connection is left to a hub that finds none, within the spread, and only for a while") {
  rig r;
  CHECK_FALSE(r.grace.gives_way(r.hub, true, start));
  r.tell(false, true, start);
  CHECK(r.grace.hub_is_full());
  const auto at = r.grace.give_up_at();
  REQUIRE(at);
  CHECK(*at < start + millis{4'000});
  CHECK_FALSE(r.grace.gives_way(r.hub, true, *at - millis{1}));
  CHECK(r.grace.gives_way(r.hub, true, *at));
  CHECK(r.grace.gives_way(r.hub, false, start));  // an attempt ends at once
  CHECK_FALSE(r.grace.gives_way(r.hub, true, *at + millis{20'000}));
  CHECK(r.grace.until() >= *at + millis{20'000});  // and no own connection is begun before
  r.grace.passed(*at);
  CHECK_FALSE(r.grace.give_up_at());
  r.tell(false, true, *at);  // said again: it is left once
  CHECK_FALSE(r.grace.give_up_at());
}

TEST_CASE("C5: a hub that is full again after another trouble is given way to again") {
  rig r;
  r.tell(false, true, start);
  const auto first = *r.grace.give_up_at();
  r.tell(false, false, start + millis{30'000});
  CHECK_FALSE(r.grace.hub_is_full());
  CHECK_FALSE(r.grace.gives_way(r.hub, true, first));
  r.tell(false, true, start + millis{40'000});
  REQUIRE(r.grace.give_up_at());
  CHECK(*r.grace.give_up_at() >= start + millis{40'000});
}

TEST_CASE("C5: a new link to the hub begins without what the last one said of being full") {
  rig r;
  r.tell(false, true, start);
  r.grace.welcomed();
  CHECK_FALSE(r.grace.hub_is_full());
  CHECK_FALSE(r.grace.give_up_at());
}
