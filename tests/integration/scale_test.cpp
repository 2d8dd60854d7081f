#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "integration/rig.hpp"
#include "support/worker_pool.hpp"

using namespace pgwake::test;

namespace {

constexpr std::size_t workers = 1000;
constexpr std::size_t channels_each = 10;

}  // namespace

TEST_CASE("U8: 1,000 workers with 10 channels each are one connection, and every one receives") {
  rig r;
  const long idle = r.hub().child().rss_kib();
  worker_pool pool(r.hub().socket(), workers);
  const auto subscribing = time_of([&] {
    for (std::size_t i = 0; i < workers; ++i)
      for (std::size_t k = 0; k < channels_each; ++k)
        pool.sub(i, k == 0 ? "all" : "c" + std::to_string((i * channels_each + k) % 3000));
    REQUIRE(
        pool.run_until([&] { return pool.sum(&worker_pool::member::acks) == workers * channels_each; }, 30s));
  });
  CHECK(subscribing < at_load(10s));
  CHECK(pool.sum(&worker_pool::member::nacks) == 0);
  CHECK(r.census() == 1);
  const long full = r.hub().child().rss_kib();
  INFO("resident KiB idle " << idle << ", with all workers " << full);
  WARN("resident KiB idle " << idle << ", with all workers " << full);

  r.notify("all", "to everyone");
  REQUIRE(pool.run_until([&] { return pool.every([](const auto& one) { return one.wakes == 1; }); }, 10s));

  pool.reset_counts();
  r.sql("SELECT pg_notify('c' || n, 'x') FROM generate_series(0, 2999) n");
  // Who holds which channel is known, so is how many wakes that makes.
  const std::size_t expected = workers * (channels_each - 1);
  REQUIRE(pool.run_until([&] { return pool.sum(&worker_pool::member::wakes) >= expected; }, 10s));
  CHECK(pool.sum(&worker_pool::member::wakes) == expected);

  pool.reset_counts();
  REQUIRE(r.terminate());
  REQUIRE(
      pool.run_until([&] { return pool.sum(&worker_pool::member::gaps) >= workers * channels_each; }, 20s));
  CHECK(pool.sum(&worker_pool::member::gaps) == workers * channels_each);
  REQUIRE_EVENTUALLY(r.census() == 1, 3s);
}

TEST_CASE("S7: 1,000 workers come, subscribe and go again and again; nothing is left of them") {
  rig r({.arguments = {"--unlisten-linger", "0s"}, .through_proxy = true});
  auto witness = r.worker();
  witness.subscribe("c0");
  const int descriptors = r.hub().child().descriptor_count();
  for (int round = 0; round < 3; ++round) {
    worker_pool pool(r.hub().socket(), workers);
    for (std::size_t i = 0; i < workers; ++i) pool.sub(i, "c" + std::to_string(i % 100));
    REQUIRE(pool.run_until([&] { return pool.sum(&worker_pool::member::acks) == workers; }, 20s));
  }
  REQUIRE_EVENTUALLY(r.hub().child().descriptor_count() == descriptors, 10s);
  // A channel may be held again before its UNLISTEN went out; in the end each was the last word.
  const auto left = [&] {
    std::set<std::string> listening;
    for (const auto& query : r.proxy().queries())
      for (int i = 1; i < 100; ++i) {
        const std::string name = "\"c" + std::to_string(i) + "\"";
        if (query.find("UNLISTEN " + name) != std::string::npos)
          listening.erase(name);
        else if (query.find("LISTEN " + name) != std::string::npos)
          listening.insert(name);
      }
    return listening.size();
  };
  REQUIRE_EVENTUALLY(left() == 0, 10s);
  r.notify("c0");
  witness.expect_wake("c0");
}
