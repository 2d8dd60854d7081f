#include "common/os/random_word.hpp"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace pgwake {

std::uint64_t random_word() {
  std::uint64_t word = 0;
  while (getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word))
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  return word;
}

std::string random_hex() {
  std::string out;
  for (int i = 0; i < 2; ++i) {
    auto word = random_word();
    for (int j = 0; j < 16; ++j, word >>= 4U) out += "0123456789abcdef"[word & 15U];
  }
  return out;
}

}  // namespace pgwake
