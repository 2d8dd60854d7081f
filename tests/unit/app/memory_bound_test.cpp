#include "daemon/app/memory_bound.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <string>

#include "common/frame.hpp"
#include "daemon/app/engine_config.hpp"
#include "daemon/door/session.hpp"
#include "daemon/door/virtual_settings.hpp"
#include "daemon/door/wire.hpp"
#include "daemon/io/log_writer.hpp"
#include "daemon/io/worker_io.hpp"

using namespace pgwaked;

namespace {

constexpr std::uint64_t mib = 1ULL << 20U;

std::string text_of(const std::string& path) {
  std::ifstream file(PGWAKE_SOURCE_DIR "/" + path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A size in MiB that the unit sets.
std::uint64_t unit_sets(const std::string& name) {
  const auto unit = text_of("systemd/pgwaked@.service.in");
  std::smatch found;
  REQUIRE(std::regex_search(unit, found, std::regex("\n" + name + "=([0-9]+)([MG])\n")));
  return std::stoull(found[1]) * (found[2] == "G" ? 1024 : 1);
}

settings with_door() {
  settings s;
  s.front_door = true;
  return s;
}

// Settings such as somebody may write.
settings drawn(std::mt19937_64& random) {
  const auto between = [&](std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(random);
  };
  settings s;
  s.front_door = between(0, 1) == 1;
  s.max_workers = between(1, 20'000);
  s.max_workers_per_user = between(0, 1) * between(1, s.max_workers);
  s.max_channels = between(1, 200'000);
  s.max_channels_per_user = between(0, 1) * between(1, s.max_channels);
  s.outbox_max_bytes = between(1, 64) * mib;
  s.outbox_total_max_bytes = between(1, 4'096) * mib;
  return s;
}

// All that the engine with its limits may be made to keep, each bound by itself.
std::uint64_t kept_at_worst(const engine::config& c, bool front_door) {
  const std::uint64_t reading = pgwake::max_frame_from_worker + worker_io::read_size;
  const std::uint64_t session = 2 * door::max_client_message + worker_io::read_size +
                                door::session::most_said +
                                door::virtual_settings::most_custom * door::virtual_settings::most_value;
  std::uint64_t sum = log_writer::max_bytes + pgwake::max_frame_from_hub;
  sum += c.limits.outbox_total_max_bytes;
  sum += c.max_workers * (front_door ? session : reading);
  sum += c.limits.max_subscriptions * 164;
  sum += c.limits.max_channels * 512;
  return sum;
}

}  // namespace

TEST_CASE("memory: the unit's limits are above what defaults and front door allow, and not far above") {
  const auto bound = memory_bound(with_door()) / mib;
  CAPTURE(bound);
  CHECK(unit_sets("MemoryHigh") >= bound);
  CHECK(unit_sets("MemoryHigh") <= bound + bound / 4);
  CHECK(unit_sets("MemoryMax") > unit_sets("MemoryHigh"));
  CHECK(unit_sets("MemoryMax") <= bound + bound / 4);
}

TEST_CASE("memory: whatever the settings, the bound covers each limit of engine, hub and front door") {
  const auto seed = GENERATE(take(200, random(0, 1'000'000'000)));
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const auto s = drawn(random);
  const auto c = engine_config(s, UINT64_MAX);
  CAPTURE(seed, s.front_door, s.max_workers, s.max_channels, s.outbox_total_max_bytes);
  const auto bound = memory_bound(s);
  const auto sum = kept_at_worst(c, s.front_door);
  CHECK(bound >= sum);
  CHECK(bound <= 2 * sum + 64 * mib);
  // What one user may have is a part of that.
  CHECK(c.workers_of_user.of({33, false}) <= c.max_workers);
  CHECK(c.limits.channels_of_user.of({33, false}) <= c.limits.max_channels);
  CHECK(c.limits.max_subscriptions_of_user <= c.limits.max_subscriptions);
  const auto grows = [&](auto member) {
    auto more = s;
    more.*member += 1'000;
    return memory_bound(more) > bound;
  };
  CHECK(grows(&settings::max_workers));
  CHECK(grows(&settings::max_channels));
  CHECK(grows(&settings::outbox_total_max_bytes));
}

TEST_CASE("memory: the bound is the sum that docs/operate.md tells") {
  settings s;
  const auto base = memory_bound(s);
  s.outbox_total_max_bytes += 100 * mib;
  CHECK(memory_bound(s) - base == 150 * mib);
  s = {};
  s.max_workers += 1'024;
  CHECK(memory_bound(s) - base == 126 * mib + 1'024 * 1'000 * 164 * 3 / 2);
  s = {};
  s.max_channels += 1'024;
  CHECK(memory_bound(s) - base == mib);
  const auto text = text_of("docs/operate.md");
  const auto said = [&](const std::string& words) { return text.find(words) != std::string::npos; };
  CHECK(
      said("1.5 × (`outbox_total_max_bytes` + 84 KiB × `max_workers` + 164 B × the most subscriptions)\n"
           "+ 1 KiB × `max_channels` + 64 MiB: " +
           std::to_string(base / mib) + " MiB"));
  CHECK(said(std::to_string(memory_bound(with_door()) / mib) + " MiB"));
  s = {};
  s.max_workers = 256;
  s.outbox_total_max_bytes = 64 * mib;
  CHECK(said("it is " + std::to_string(memory_bound(s) / mib) + " MiB"));
}
