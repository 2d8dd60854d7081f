#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pgwake {

// PostgreSQL's NAMEDATALEN - 1: LISTEN silently cuts what is longer (manual, "Identifiers and Key Words").
inline constexpr std::size_t max_channel_bytes = 63;
// Every hub and every own connection listens to it; see the hand-over in docs/protocol.md.
inline constexpr std::string_view fence_channel = "pgwake.fence";
inline constexpr std::string_view reserved_prefix = "pgwake.";

// Why a name can be a channel in no database; nullopt: it can be one, byte for byte, where it is
// not too long.
std::optional<std::string> channel_fault(std::string_view name);
// The same of its length, in a database that has names as they are written here: UTF8, or SQL_ASCII, which
// leaves bytes alone. In any other only the server can count (it notices 42622, and cuts).
std::optional<std::string> length_fault(std::string_view name);

// `name` as a quoted SQL identifier.
std::string quote_identifier(std::string_view name);
// `text` as a SQL string literal; works whatever standard_conforming_strings says.
std::string quote_literal(std::string_view text);

// How v0 workers name queues: text with exactly one `{}`.
class queue_template {
 public:
  // nullopt unless `text` has exactly one `{}`.
  static std::optional<queue_template> parse(std::string_view text);

  std::string channel(std::string_view queue) const;
  // The queue of a channel, nullopt where the channel does not fit the template.
  std::optional<std::string_view> queue(std::string_view channel) const;

 private:
  std::string before_;
  std::string after_;
};

// `*` any run of bytes, `?` one byte, all else itself.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace pgwake
