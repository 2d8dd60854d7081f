#include <catch2/catch.hpp>

#include "client/src/core/return_plan.hpp"

using namespace pgwake;
using namespace pgwake::client;

namespace {

const steady_time start{};
constexpr return_plan::settings two_seconds{millis{2'000}, millis{60'000}, millis{60'000}};

// The latest time that the plan may come to, after now.
millis most(return_plan& plan, steady_time now) {
  plan.plan(1, now);
  return std::chrono::duration_cast<millis>(*plan.deadline() - now);
}

}  // namespace

TEST_CASE("C5: the return to the hub is spread between a tenth of the delay and all of it") {
  return_plan plan(two_seconds);
  CHECK_FALSE(plan.planned());
  CHECK_FALSE(plan.due(start + millis{1'000'000}));
  plan.plan(0, start);
  CHECK(plan.planned());
  CHECK(plan.deadline() == start + millis{200});
  CHECK_FALSE(plan.due(start + millis{199}));
  CHECK(plan.due(start + millis{200}));
  CHECK(most(plan, start) == millis{2'000});
  plan.cancel();
  CHECK_FALSE(plan.due(start + millis{1'000'000}));
}

TEST_CASE(
    "C5: it comes later each time that the hub did not last, up to a limit, and soon after a long stay") {
  return_plan plan(two_seconds);
  auto now = start;
  for (const auto expected : {2'000, 4'000, 8'000, 16'000, 32'000, 60'000, 60'000}) {
    plan.arrived(now);
    now += millis{59'999};
    plan.left(now);
    CHECK(most(plan, now) == millis{expected});
  }
  plan.arrived(now);
  now += millis{60'000};
  plan.left(now);
  CHECK(most(plan, now) == millis{2'000});
}

TEST_CASE("C5: an attempt that failed counts as a short stay") {
  return_plan plan(two_seconds);
  plan.failed(1, start);
  CHECK(plan.deadline() == start + millis{2'000});
  plan.failed(1, start);
  CHECK(plan.deadline() == start + millis{4'000});
  for (int i = 0; i < 100; ++i) plan.failed(1, start);
  CHECK(plan.deadline() == start + millis{60'000});
  plan.put_off(start);
  CHECK(plan.deadline() == start + millis{60'000});
}
