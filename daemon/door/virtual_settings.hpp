#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/door/sql_scanner.hpp"

namespace pgwaked::door {

// The run-time settings of one virtual session: what SET, RESET and SHOW see. They change nothing but what
// this session is told about itself; those that decide how it is spoken to (client_encoding,
// standard_conforming_strings) are checked. Pure. Bounded: at most `most_custom` settings beyond the server's
// own, values of at most `most_value` bytes.
class virtual_settings {
 public:
  static constexpr std::size_t most_custom = 100;
  static constexpr std::size_t most_value = 1'024;

  // Values that differ from the built-in ones at the start of the session, as the server or the startup
  // packet gave them.
  explicit virtual_settings(std::vector<std::pair<std::string, std::string>> start = {});

  struct report {  // a ParameterStatus is due
    std::string name;
    std::string value;
  };
  using reports = std::vector<report>;

  // `value` nullopt: the value that it had at the start. `local`: until the end of the transaction.
  std::optional<sql_error> set(std::string_view name, const std::optional<std::string>& value, bool local,
                               reports& out);
  void reset_all(reports& out);
  // 42704 where there is none; `missing_ok`: nullopt instead.
  std::optional<std::string> get(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> all() const;  // by name, spelt as the server spells them
  // As the server spells it; empty where there is none.
  std::string spelling(std::string_view name) const;
  // What the server reports by itself, in its order, with present values.
  reports reported() const;

  // Transactions: SET is undone by ROLLBACK, SET LOCAL by both.
  void begin();
  void commit(reports& out);
  void rollback(reports& out);

  std::size_t bytes() const;

 private:
  using values = std::map<std::string, std::string, std::less<>>;

  std::optional<std::string> start_value(std::string_view name) const;
  void change_to(values kept, reports& out);

  values start_;  // by lower-case name; what differs from the built-in table
  values now_;
  std::optional<values> at_begin_;
  values local_;  // what SET LOCAL found, to be put back at the end
};

sql_error no_such_setting(std::string_view name);

}  // namespace pgwaked::door
