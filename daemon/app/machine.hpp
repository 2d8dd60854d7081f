#pragma once

#include <cstdint>
#include <optional>
#include <string>

// What the daemon asks its system for.
namespace pgwaked {

std::string random_uuid();

// Raises the soft limit of descriptors to the hard one; the result is what may be used.
std::uint64_t descriptor_limit();
// In bytes, as the control groups that it is in set it (MemoryHigh=, MemoryMax=, a
// container's); nullopt: none.
std::optional<std::uint64_t> memory_limit();

}  // namespace pgwaked
