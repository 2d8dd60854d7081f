#pragma once

#include <cstdint>

#include "daemon/settings/settings.hpp"

namespace pgwaked {

// The most memory that a hub with these settings takes, in bytes, if everything that has a bound is at its
// bound: outboxes and subscriptions full, and every worker in the middle of its largest frame with more
// behind it. What a user may have is below that: of many users each may have its part. docs/operate.md has
// the sum in words, and the unit's MemoryHigh= and MemoryMax= are above that of the defaults with the front
// door (a test holds them there).
std::uint64_t memory_bound(const settings& s);

}  // namespace pgwaked
