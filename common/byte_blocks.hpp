#pragma once

#include <cstddef>
#include <string_view>

namespace pgwake {

inline constexpr std::size_t byte_block = 32;

// Whether `bad(byte)`, an unsigned char, is 0 for each byte of a block. A fixed size and no branch inside:
// compilers make a few vector instructions of it.
template <typename Bad>
bool block_is_clean(const char* bytes, Bad bad) {
  unsigned char any = 0;
  for (std::size_t i = 0; i < byte_block; ++i) any |= bad(static_cast<unsigned char>(bytes[i]));
  return any == 0;
}

// How many bytes at the front are clean as far as whole blocks tell. What follows is to be looked at
// byte by byte.
template <typename Bad>
std::size_t clean_blocks(std::string_view text, Bad bad) {
  std::size_t at = 0;
  while (at + byte_block <= text.size() && block_is_clean(text.data() + at, bad)) at += byte_block;
  return at;
}

// Whether all of `text` is clean. The last block may overlap the one before it.
template <typename Bad>
bool all_clean(std::string_view text, Bad bad) {
  auto at = clean_blocks(text, bad);
  const auto left = text.size() - at;
  if (at > 0 && left < byte_block)
    return left == 0 || block_is_clean(text.data() + text.size() - byte_block, bad);
  while (at < text.size() && bad(static_cast<unsigned char>(text[at])) == 0) ++at;
  return at == text.size();
}

}  // namespace pgwake
