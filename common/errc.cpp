#include "common/errc.hpp"

#include <array>

namespace pgwake {
namespace {

struct category final : std::error_category {
  const char* name() const noexcept override { return "pgwake"; }
  std::string message(int value) const override {
    switch (static_cast<errc>(value)) {
      case errc::malformed_frame:
        return "malformed frame";
      case errc::frame_too_long:
        return "frame over the limit";
      case errc::invalid_channel:
        return "invalid channel name";
      case errc::forbidden:
        return "forbidden";
      case errc::limit:
        return "a limit was reached";
      case errc::wrong_database:
        return "the hub serves another database";
      case errc::protocol:
        return "protocol error";
      case errc::listen_failed:
        return "LISTEN failed";
      case errc::shutdown:
        return "shutting down";
      case errc::connect_failed:
        return "could not connect";
      case errc::connect_timeout:
        return "connecting took too long";
      case errc::session_lost:
        return "the session was lost";
      case errc::deadline:
        return "the deadline passed";
      case errc::closed:
        return "closed";
    }
    return "unknown error";
  }
};

constexpr std::array<std::string_view, 7> code_names = {
    "invalid_channel", "forbidden", "limit", "wrong_database", "protocol", "listen_failed", "shutdown"};

}  // namespace

const std::error_category& pgwake_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), pgwake_category()}; }

std::string_view to_string(code c) noexcept { return code_names[static_cast<std::size_t>(c)]; }

code code_from_string(std::string_view text) noexcept {
  for (std::size_t i = 0; i < code_names.size(); ++i)
    if (code_names[i] == text) return static_cast<code>(i);
  return code::protocol;
}

}  // namespace pgwake
