#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "integration/client_rig.hpp"
#include "support/background.hpp"

using namespace pgwake;
using namespace pgwake::test;

namespace {

using micros = std::chrono::microseconds;

template <class Duration>
Duration median(std::vector<Duration> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

double ms(micros t) { return static_cast<double>(t.count()) / 1000; }

}  // namespace

TEST_CASE(
    "C4: from kill -9 of the hub to the first wake over the own connection: a bare connect and LISTEN, plus "
    "10 ms") {
  client_rig r;
  auto w = r.client({{"return_delay", "10ms"}, {"return_delay_max", "50ms"}});
  REQUIRE(w.client().subscribe("c", 10s));
  background publisher([&](const auto& stop) {
    auto to = r.host().publisher();
    while (!stop) {
      to.notify("c", "x");
      std::this_thread::sleep_for(micros(300));
    }
  });
  const int rounds =
      std::getenv("PGWAKE_TEST_ROUNDS") != nullptr ? std::atoi(std::getenv("PGWAKE_TEST_ROUNDS")) : 15;
  std::vector<micros> ours;
  std::vector<micros> bare;
  for (int i = 0; i < rounds; ++i) {
    REQUIRE(w.await_source(source::hub));
    w.forget();
    auto began = clock::now();
    r.hub().kill();
    REQUIRE(w.await([](const seen& e) { return e.payload == "x" && e.source == PGWAKE_SOURCE_OWN; }));
    ours.push_back(std::chrono::duration_cast<micros>(clock::now() - began));

    began = clock::now();
    connection direct(r.conninfo());
    direct.exec("LISTEN c");
    REQUIRE(direct.next_notification(5s));
    bare.push_back(std::chrono::duration_cast<micros>(clock::now() - began));
    r.hub().start();
    REQUIRE(r.hub().await_health());
  }
  WARN("median over " << rounds << ": " << ms(median(ours)) << " ms, bare libpq " << ms(median(bare))
                      << " ms");
  // The promise is about the median, which `scripts/bench` measures where nothing else runs. Beside other
  // tests the best of them says whether the way is short.
  CHECK(*std::min_element(ours.begin(), ours.end()) <=
        *std::min_element(bare.begin(), bare.end()) + at_load(10ms));
}
