#include <catch2/catch.hpp>

#include "client/src/core/own_life.hpp"
#include "client/src/core/own_slot.hpp"

using namespace pgwake;
using namespace pgwake::client;

namespace {

const steady_time start{};

}  // namespace

TEST_CASE("own connection: starting until a session is live, and again after each that is lost") {
  own_life own;
  CHECK(own.off());
  own.begin();
  CHECK(own.starting());
  CHECK(own.reason() == "connecting");
  CHECK(own.failed("no route"));
  CHECK(own.starting());
  CHECK(own.reason() == "no route");
  CHECK(own.became_live("shop", "7", 412));
  CHECK(own.live());
  CHECK(own.reason().empty());
  CHECK(own.database() == "shop");
  CHECK(own.system_id() == "7");
  CHECK(own.backend() == 412);
  CHECK(own.lost("terminated"));
  CHECK(own.starting());
  CHECK(own.reason() == "terminated");
  CHECK(own.backend() == 412);  // what it said may still come by in the hub's stream
  own.end();
  CHECK(own.off());
}

TEST_CASE("own connection: what is told of a session in the wrong state changes nothing") {
  own_life own;
  CHECK_FALSE(own.became_live("late", "1", 1));
  CHECK_FALSE(own.lost("late"));
  CHECK_FALSE(own.failed("late"));
  CHECK(own.off());
  own.begin();
  CHECK_FALSE(own.lost("not live yet"));
  REQUIRE(own.became_live("shop", "7", 1));
  CHECK_FALSE(own.failed("live already"));
  CHECK_FALSE(own.became_live("again", "8", 2));
  CHECK(own.database() == "shop");
  own.end();
  CHECK_FALSE(own.lost("given up before"));
  CHECK(own.off());
}

TEST_CASE("C11: a slot is asked for once, and again only after a while if it was not granted") {
  own_slot slot(millis{1'000});
  CHECK(slot.may_ask(start));
  slot.asked();
  CHECK(slot.awaited());
  CHECK_FALSE(slot.may_ask(start + millis{100'000}));
  slot.answered(false, "all are taken", 1, start);
  CHECK(slot.missed());
  CHECK_FALSE(slot.held());
  CHECK(slot.trouble() == "all are taken");
  CHECK_FALSE(slot.may_ask(start + millis{749}));
  CHECK(slot.may_ask(start + millis{750}));  // up to a quarter sooner
  CHECK(slot.deadline() == start + millis{750});
  slot.answered(false, "all are taken", 0, start);
  CHECK(slot.deadline() == start + millis{1'000});
  slot.asked();
  CHECK_FALSE(slot.deadline());
  slot.answered(true, "", 0, start);
  CHECK(slot.held());
  CHECK_FALSE(slot.missed());
  CHECK_FALSE(slot.deadline());
  CHECK(slot.give_back());
  CHECK_FALSE(slot.give_back());
}

TEST_CASE("C11: whoever wants no own connection any more does not poll for want of a slot") {
  own_slot slot(millis{1'000});
  slot.answered(false, "all are taken", 0, start);
  slot.unwanted();
  CHECK_FALSE(slot.missed());
  CHECK(slot.may_ask(start));
}
