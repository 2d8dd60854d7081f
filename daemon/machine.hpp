#pragma once

#include <cstdint>
#include <string>

// What the daemon asks its system for.
namespace pgwaked {

// Throw std::runtime_error when the system gives no random numbers.
std::uint64_t random_word();
std::string random_hex();  // 32 digits
std::string random_uuid();

std::string host_name();
// Raises the soft limit of descriptors to the hard one; the result is what may be used.
std::uint64_t descriptor_limit();

}  // namespace pgwaked
