#include "common/intake_account.hpp"

#include <catch2/catch.hpp>
#include <chrono>

using namespace pgwake;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t mib = 1U << 20U;
constexpr steady_time start{};

}  // namespace

TEST_CASE("U4: a burst of notifications that comes between the two looks at a socket is no excess") {
  intake_account a(start);
  a.begin(5'000, 0);
  a.took(7'000);
  // 12,000 bytes had come when the total was asked for; a MiB more waits when what waits is asked for.
  CHECK(a.fits(12'000, mib, start));
  CHECK(a.fits(12'000, 6'000, start));
  CHECK(a.fits(12'000 + mib, mib, start));
}

TEST_CASE("U4: a session that begins with a burst on its way counts what it reads of it") {
  intake_account a(start);
  a.begin(5'000, mib);
  CHECK(a.fits(5'000 + mib, mib, start));
  a.took(mib);
  CHECK(a.fits(5'000 + mib, 0, start));
}

TEST_CASE("U4: what libpq keeps is bounded, over TCP and over a Unix socket") {
  intake_account tcp(start);
  tcp.begin(100, 0);
  tcp.took(mib);
  CHECK(tcp.fits(100 + mib + intake_account::most, 0, start));
  CHECK_FALSE(tcp.fits(101 + mib + intake_account::most, 0, start));
  CHECK(tcp.fits(101 + mib + intake_account::most, 1, start));
  CHECK(tcp.fits(100 + mib + intake_account::most + intake_account::most_per_second, 0, start + 1s));

  intake_account local(start);
  for (int i = 0; i < 3; ++i) local.about_to_read(256U << 10U);  // the first is no repetition
  CHECK(local.fits(start));
  local.about_to_read(1);
  CHECK_FALSE(local.fits(start));
  local.took(1);
  CHECK(local.fits(start));
}
