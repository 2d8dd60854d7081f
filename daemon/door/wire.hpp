#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/door/sql_scanner.hpp"

// PostgreSQL's protocol, version 3, as its server speaks it: the manual's chapters 55.2 and 55.7. Pure.
namespace pgwaked::door {

inline constexpr std::size_t max_startup = 10'000;         // bytes of a startup packet, as in the server
inline constexpr std::size_t max_client_message = 65'536;  // bytes of any later one, its type not counted

// Types as pg_type numbers them.
enum class type_oid : std::uint32_t {
  boolean = 16,
  int8 = 20,
  int4 = 23,
  text = 25,
  oid = 26,
  name = 19,
  numeric = 1700,
  void_ = 2278
};
std::int16_t type_size(type_oid type);

// Cuts the client's bytes: first a startup packet, which has no type, then messages.
class client_reader {
 public:
  enum class outcome { need_more, message, malformed };
  struct message {
    char type = 0;  // 0: a startup packet
    std::string_view body;
  };

  void append(std::string_view bytes) { in_ += bytes; }
  // `out` is valid until the next call of append() or next().
  outcome next(message& out);
  // The startup packet was the last of its kind: messages follow.
  void started() { startup_ = false; }
  bool mid_message() const { return in_.size() > begin_; }
  std::size_t unread() const { return in_.size() - begin_; }
  std::size_t held() const { return in_.capacity(); }
  void clear();

 private:
  std::string in_;
  std::size_t begin_ = 0;
  bool startup_ = true;
};

// Takes a message's body apart; once something is missing it stays `bad`, and gives zeros.
class body_reader {
 public:
  explicit body_reader(std::string_view body) : rest_(body) {}
  std::uint8_t byte();
  std::int16_t int16();
  std::int32_t int32();
  std::string_view text();  // up to NUL
  std::string_view bytes(std::size_t count);
  std::string_view rest() const { return rest_; }
  bool bad() const { return bad_; }
  bool done() const { return !bad_ && rest_.empty(); }

 private:
  std::uint32_t number(std::size_t bytes);

  std::string_view rest_;
  bool bad_ = false;
};

struct column {
  std::string name;
  type_oid type = type_oid::text;
  bool binary = false;  // as its values are sent
};
// A row's values as they are sent; nullopt is NULL.
using row = std::vector<std::optional<std::string>>;

enum class transaction_state : char { idle = 'I', open = 'T', failed = 'E' };

// The server's messages, each appended to `out`.
void put_authentication_ok(std::string& out);
void put_parameter(std::string& out, std::string_view name, std::string_view value);
void put_key(std::string& out, std::uint32_t pid, std::string_view secret);
void put_negotiation(std::string& out, std::uint32_t newest_minor, const std::vector<std::string>& unknown);
void put_ready(std::string& out, transaction_state state);
void put_error(std::string& out, std::string_view severity, const sql_error& error);    // ERROR or FATAL
void put_notice(std::string& out, std::string_view severity, const sql_error& notice);  // NOTICE or WARNING
void put_complete(std::string& out, std::string_view tag);
void put_columns(std::string& out, const std::vector<column>& columns);
void put_row(std::string& out, const row& values);
void put_parameter_types(std::string& out, const std::vector<std::uint32_t>& types);
void put_notification(std::string& out, std::uint32_t pid, std::string_view channel,
                      std::string_view payload);
// ParseComplete, BindComplete, CloseComplete, NoData, EmptyQueryResponse, PortalSuspended: a type
// and no body.
void put_bare(std::string& out, char type);

}  // namespace pgwaked::door
