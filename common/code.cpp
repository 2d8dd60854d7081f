#include "common/code.hpp"

#include <array>
#include <cstddef>

namespace pgwake {
namespace {

constexpr std::array<std::string_view, 8> code_names = {"invalid_channel", "forbidden", "limit",
                                                        "wrong_database",  "protocol",  "listen_failed",
                                                        "shutdown",        "moved"};

}  // namespace

std::string_view to_string(code c) noexcept { return code_names[static_cast<std::size_t>(c)]; }

code code_from_string(std::string_view text) noexcept {
  for (std::size_t i = 0; i < code_names.size(); ++i)
    if (code_names[i] == text) return static_cast<code>(i);
  return code::protocol;
}

}  // namespace pgwake
