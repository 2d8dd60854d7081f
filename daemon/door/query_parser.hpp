#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/door/sql_cursor.hpp"
#include "daemon/door/statement.hpp"

namespace pgwaked::door {

// What follows SELECT, by recursive descent. Pure; what it does not know is an error of the cursor.
class query_parser {
 public:
  // `parameters`: raised to the highest $n.
  query_parser(sql_cursor& cursor, std::size_t& parameters) : c_(cursor), parameters_(parameters) {}
  statement select();

 private:
  bool take_channels_call();
  std::string alias(std::string otherwise);
  std::optional<statement> channels_query();
  std::optional<statement> exists_query();
  std::optional<statement> types_query();
  bool loads_types(std::size_t table) const;
  std::vector<std::string> column_names(std::size_t from) const;
  select_values::column column();
  static std::string name_of(const expression& v);
  expression value();
  std::string type();
  expression primary();
  expression number();
  expression parameter();
  expression call_or_word();

  sql_cursor& c_;
  std::size_t& parameters_;
  std::size_t depth_ = 0;  // of what is nested
};

}  // namespace pgwaked::door
