#pragma once

#include <string>
#include <string_view>

namespace pgwake {

// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes) noexcept;

// The same text with U+FFFD in place of each byte that is not part of a valid sequence.
std::string replace_bad_utf8(std::string_view bytes);

bool is_printable_ascii(std::string_view bytes) noexcept;

}  // namespace pgwake
