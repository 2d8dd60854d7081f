#include "common/backoff.hpp"

#include <catch2/catch.hpp>
#include <set>

using namespace pgwake;

TEST_CASE("U5: at once, then exponential up to the cap") {
  const backoff_limits limits{millis{100}, millis{3000}};
  const std::int64_t expected[] = {0, 100, 200, 400, 800, 1600, 3000, 3000};
  for (unsigned attempt = 0; attempt < 8; ++attempt)
    CHECK(backoff_delay(limits, attempt, 0.0).count() == expected[attempt]);
  CHECK(backoff_delay(limits, 4'000'000'000U, 0.0).count() == 3000);
  CHECK(backoff_delay({millis{1000}, millis{30'000}}, 6, 0.0).count() == 30'000);
}

TEST_CASE("U5: jitter takes away at most a quarter, never adds") {
  const backoff_limits limits{millis{100}, millis{3000}};
  jitter random(7);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto delay = backoff_delay(limits, 20, random.next()).count();
    REQUIRE(delay > 2250 - 1);
    REQUIRE(delay <= 3000);
    seen.insert(delay);
  }
  CHECK(seen.size() > 100);
}

TEST_CASE("jitter: uniform in [0, 1), one seed one sequence") {
  jitter a(1);
  jitter b(1);
  jitter c(2);
  double sum = 0;
  bool differs = false;
  for (int i = 0; i < 10'000; ++i) {
    const auto x = a.next();
    REQUIRE(x >= 0);
    REQUIRE(x < 1);
    REQUIRE(x == b.next());
    differs = differs || x != c.next();
    sum += x;
  }
  CHECK(differs);
  CHECK(sum / 10'000 == Approx(0.5).margin(0.02));
}
