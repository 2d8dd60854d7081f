#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pgwake {

// RFC 4648, standard alphabet, padded.
std::string base64_encode(std::string_view bytes);
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace pgwake
