#include <catch2/catch.hpp>

#include "client/src/core/reminders.hpp"

using namespace pgwake;
using namespace pgwake::client;

namespace {

const steady_time start{};

}  // namespace

TEST_CASE("C3: while nobody serves, a reminder comes every poll_interval, the first after one of them") {
  reminders r(millis{2'000}, millis{0});
  CHECK_FALSE(r.due(false, start));
  CHECK_FALSE(r.deadline());
  CHECK_FALSE(r.due(true, start));
  CHECK(r.deadline() == start + millis{2'000});
  CHECK_FALSE(r.due(true, start + millis{1'999}));
  CHECK(r.due(true, start + millis{2'000}));
  CHECK_FALSE(r.due(true, start + millis{3'999}));
  CHECK(r.due(true, start + millis{4'500}));  // late: the next one is an interval from then
  CHECK(r.deadline() == start + millis{6'500});
  CHECK_FALSE(r.due(false, start + millis{6'500}));
  CHECK_FALSE(r.deadline());
}

TEST_CASE("C3: the safety poll goes on while the application is served, and polling takes its place") {
  reminders r(millis{2'000}, millis{60'000});
  CHECK_FALSE(r.due(false, start));
  CHECK(r.deadline() == start + millis{60'000});
  CHECK(r.due(false, start + millis{60'000}));
  CHECK_FALSE(r.due(true, start + millis{61'000}));
  CHECK(r.deadline() == start + millis{63'000});
  CHECK(r.due(true, start + millis{63'000}));
  CHECK_FALSE(r.due(false, start + millis{64'000}));
  CHECK(r.deadline() == start + millis{124'000});
}
