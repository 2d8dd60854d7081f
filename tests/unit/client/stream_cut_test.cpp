#include <catch2/catch.hpp>

#include "client/src/core/stream_cut.hpp"

using namespace pgwake;
using namespace pgwake::client;

TEST_CASE("G1: an own session needs a cut only if the hub delivered while it was there") {
  stream_cut cut;
  CHECK_FALSE(cut.needed(side::own));
  cut.delivered(side::hub);
  CHECK(cut.needed(side::own));
  cut.own_session_changed();  // what the hub delivered before, it cannot repeat
  CHECK_FALSE(cut.needed(side::own));
  cut.delivered(side::hub);
  cut.delivered(side::own);
  CHECK(cut.needed(side::own));
}

TEST_CASE("G1: the hub needs a cut only if the own connection delivered last") {
  stream_cut cut;
  CHECK_FALSE(cut.needed(side::hub));
  cut.delivered(side::own);
  CHECK(cut.needed(side::hub));
  cut.delivered(side::hub);
  CHECK_FALSE(cut.needed(side::hub));
  cut.delivered(side::own);
  cut.passed(side::hub);  // a fence
  CHECK_FALSE(cut.needed(side::hub));
}

TEST_CASE("G1: a cut drops the stream of one side until that has carried its mark") {
  stream_cut cut;
  cut.delivered(side::hub);
  cut.begin(side::own, "a");
  CHECK(cut.active());
  CHECK(cut.drops(side::own));
  CHECK_FALSE(cut.drops(side::hub));
  CHECK_FALSE(cut.drops(side::none));
  CHECK(cut.at_mark(side::own, "a"));
  CHECK_FALSE(cut.at_mark(side::own, "b"));
  CHECK_FALSE(cut.at_mark(side::hub, "a"));
  CHECK(cut.at_last_mark());
  cut.end();
  CHECK_FALSE(cut.active());
  CHECK_FALSE(cut.needed(side::own));
}

TEST_CASE("G1: the hub's cut has two marks") {
  stream_cut cut;
  cut.delivered(side::own);
  cut.begin(side::hub, "a");
  CHECK_FALSE(cut.at_last_mark());
  cut.go_on("b");
  CHECK(cut.drops(side::hub));
  CHECK(cut.at_last_mark());
  CHECK_FALSE(cut.at_mark(side::hub, "a"));
  CHECK(cut.at_mark(side::hub, "b"));
  cut.begin(side::hub, "c");  // another one begins anew
  CHECK_FALSE(cut.at_last_mark());
  cut.give_up(side::own);
  CHECK(cut.active());
  cut.give_up(side::hub);
  CHECK_FALSE(cut.active());
  CHECK_FALSE(cut.at_mark(side::hub, "c"));
  CHECK(cut.needed(side::hub));  // it is still to be made
}
