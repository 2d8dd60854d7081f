#pragma once

#include <cstdint>
#include <functional>

namespace pgwake {

// 64 bits that nobody can guess: the kernel's in a program, a seed's in a test. Drawn anew at each need,
// since whatever goes over the fence channel is seen by every role of the database.
using secret_source = std::function<std::uint64_t()>;

}  // namespace pgwake
