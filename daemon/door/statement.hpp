#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/door/sql_scanner.hpp"

namespace pgwaked::door {

// What the front door recognises of SQL, and what it makes of it. Pure: text to structs, nothing
// is carried out.
//
// Recognised are the statements that a listening connection says at connect, at keep-alive and at reset
// (docs/drivers.md lists who says what). Anything else that PostgreSQL could take is `unsupported`: this
// socket is no proxy. Errors that PostgreSQL's parser would find in a recognised statement are found here,
// with its SQLSTATE.

// A channel as the server reads it: folded unless quoted, cut after 63 bytes at a character's border.
struct channel_name {
  std::string text;
  std::string cut_from;  // the whole name, where it was cut (NOTICE 42622); else empty
  bool operator==(const channel_name&) const = default;
};

// An expression of a SELECT without a table.
struct expression {
  enum class kind { null, boolean, integer, numeric, text, parameter, call };
  kind what = kind::null;
  std::string
      text;  // a constant's value as text ("t", "f" for boolean), a parameter's number, a function's name
  std::vector<expression> arguments{};
  std::string cast{};  // the type that it is cast to: text, int4, int8, bool, name, oid; else empty
  bool operator==(const expression&) const = default;
};

struct listen {
  channel_name channel;
};
struct unlisten {
  std::optional<channel_name> channel;  // nullopt: *
};
struct listen_block {  // DO $$BEGIN LISTEN a; ... END$$, or UNLISTEN alike (Oban)
  bool ends_listening = false;
  std::vector<channel_name> channels;
};
struct begin {
  bool start_transaction = false;  // its tag
};
struct commit {};
struct rollback {};
struct set_value {
  enum class scope { session, local };
  scope where = scope::session;
  std::string name;                  // lower case
  std::optional<std::string> value;  // nullopt: DEFAULT
};
// SET SESSION CHARACTERISTICS: taken, and without effect, since nothing that it is about can be said here.
struct set_characteristics {};
struct reset {
  std::optional<std::string> name;  // nullopt: ALL
};
struct show {
  std::optional<std::string> name;  // nullopt: ALL
};
struct discard {
  enum class kind { all, plans, sequences, temp };
  kind what = kind::all;
};
struct deallocate {
  std::optional<std::string> name;  // nullopt: ALL
};
struct close_all {};
struct select_values {
  struct column {
    std::string name;
    expression value;
  };
  std::vector<column> columns;
};
struct select_channels {  // SELECT pg_listening_channels(), SELECT * FROM pg_listening_channels()
  std::string column;
};
struct select_listens_to {  // pg-boss: SELECT EXISTS (SELECT 1 FROM pg_listening_channels() AS c WHERE c =
                            // $1) [AS name]
  std::string column;
  expression channel;
};
struct select_nothing {  // SELECT ... FROM pg_type: drivers that load types get none
  std::vector<std::string> columns;
};

using statement = std::variant<listen, unlisten, listen_block, begin, commit, rollback, set_value,
                               set_characteristics, reset, show, discard, deallocate, close_all,
                               select_values, select_channels, select_listens_to, select_nothing>;

struct parsed {
  std::vector<statement> statements;  // none: the query is empty, or a comment
  std::optional<sql_error> error;     // then nothing of it holds (P9)
  std::size_t parameters = 0;         // the highest $n
};

parsed parse_sql(std::string_view sql, bool backslashes = false);

// What it takes in memory, with all that hangs on it.
std::size_t bytes_of(const statement& s);

// 0A000, with where to send it.
sql_error unsupported(std::string_view what);

}  // namespace pgwaked::door
