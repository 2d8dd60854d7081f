#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>

#include "unit/client/failover_world.hpp"

using namespace pgwake;
using pgwake::test::failover_world;

namespace {

secret_source numbers() {
  return [n = std::make_shared<std::uint64_t>(0)] { return ++*n; };
}

client::failover_settings quick() {
  client::failover_settings s;
  s.unhealthy_grace = millis{800};
  s.return_delay = millis{300};
  s.return_delay_cap = millis{2'000};
  s.handover_deadline = millis{1'500};
  s.hub_retry_slow = millis{3'000};
  s.yield_spread = millis{300};
  s.yield_patience = millis{1'000};
  return s;
}

// PGWAKE_SEED repeats one, PGWAKE_SEEDS looks at more.
void look_at(const client::failover_settings& settings, std::uint64_t first, int steps) {
  std::uint64_t count = 40;
  if (const char* one = std::getenv("PGWAKE_SEED")) {
    first = std::strtoull(one, nullptr, 10);
    count = 1;
  } else if (const char* many = std::getenv("PGWAKE_SEEDS")) {
    count = std::strtoull(many, nullptr, 10);
  }
  for (auto seed = first; seed < first + count; ++seed) {
    const auto play = [&](failover_world& world) {
      world.run(steps);
      if (world.faults().empty()) world.settle();
      if (world.faults().empty()) world.close_books();
      return world.faults().empty();
    };
    auto numbered = settings;
    numbered.secret = numbers();
    failover_world world(seed, numbered);
    if (play(world)) continue;
    numbered.secret = numbers();
    failover_world again(seed, numbered, true);
    play(again);
    FAIL("seed " << seed << ": " << again.faults().front() << "\n" << again.trace());
  }
}

}  // namespace

TEST_CASE("C2 C5 C6 C7: whatever breaks, each notification comes once and in order, or a gap is announced") {
  look_at(quick(), 1, 3'000);
}

TEST_CASE("C11: the same with slots that are not always to be had") {
  auto s = quick();
  s.limited = true;
  look_at(s, 10'000, 3'000);
}

TEST_CASE("C3: the same under every other policy") {
  for (const auto p : {client::policy::poll, client::policy::none, client::policy::direct}) {
    auto s = quick();
    s.policy = p;
    look_at(s, 20'000, 1'500);
  }
}

TEST_CASE("C6: the same with reattach=never") {
  auto s = quick();
  s.reattach = false;
  look_at(s, 30'000, 1'500);
}
