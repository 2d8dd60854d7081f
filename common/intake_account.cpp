#include "common/intake_account.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace pgwake {
namespace {

constexpr std::uint64_t most_at_once = 256U << 10U;  // libpq need not have taken all that waited

}  // namespace

void intake_account::about_to_read(std::uint64_t waiting) {
  if (std::exchange(fruitless_, true)) stalled_ += std::min(waiting, most_at_once);
}

std::uint64_t intake_account::allowed(steady_time now) const {
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - since_).count();
  return most + most_per_second * static_cast<std::uint64_t>(std::max<std::int64_t>(age, 0));
}

bool intake_account::fits(std::uint64_t total, std::uint64_t waiting, steady_time now) const {
  return read(total, waiting) <= before_ + taken_ + allowed(now);
}

}  // namespace pgwake
