#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pgwaked::door {

// A word of SQL as PostgreSQL's scanner cuts it (its manual, chapter 4.1). Pure.
struct sql_token {
  enum class kind {
    word,       // an unquoted identifier or key word; `text` is folded to lower case in ASCII
    name,       // a quoted identifier; `text` as it stands between the quotes
    string,     // a string constant of any form; `text` is its value
    bits,       // B'...' or X'...'
    number,     // `text` as written
    parameter,  // $1; `text` is the digits
    symbol,     // one of ( ) [ ] , . ; : or an operator; `text` as written
  };
  kind what = kind::symbol;
  std::string text;
  std::size_t at = 0;  // where it begins, in bytes from 0
  bool operator==(const sql_token&) const = default;
};

// What PostgreSQL would answer.
struct sql_error {
  std::string sqlstate;
  std::string message;
  std::string hint;
  bool operator==(const sql_error&) const = default;
};

struct scanned {
  std::vector<sql_token> tokens;
  std::optional<sql_error> error;  // the tokens before it are in `tokens`
};

// `backslashes`: standard_conforming_strings is off, so '...' knows escapes as E'...' does. The text is
// UTF-8, or is taken byte for byte where it is not.
scanned scan_sql(std::string_view sql, bool backslashes = false);

}  // namespace pgwaked::door
