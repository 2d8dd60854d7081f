#pragma once

#include <cstdint>
#include <string>

namespace pgwake {

// From the kernel, unguessable. Throw std::system_error where it gives none: nothing predictable
// takes its place.
std::uint64_t random_word();
std::string random_hex();  // 32 digits

}  // namespace pgwake
