#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/door/statement.hpp"
#include "daemon/door/virtual_settings.hpp"
#include "daemon/door/wire.hpp"

namespace pgwaked::door {

// What a session knows of the server behind the hub, and of itself.
struct session_facts {
  std::string version;  // as version() says it
  std::string database;
  std::string user;
  std::uint32_t pid = 0;  // the virtual one
};

// A parameter as Bind brought it.
struct bound {
  std::optional<std::string> value;
  bool binary = false;
  std::uint32_t type = 0;  // as Parse said, 0: unknown
};

// Columns and rows of the statements that answer with some. Pure; set_config() changes `settings`.
class value_maker {
 public:
  value_maker(const session_facts& facts, virtual_settings& settings,
              const std::set<std::string, std::less<>>& listening)
      : facts_(facts), settings_(settings), listening_(listening) {}

  // Without rows: nullopt.
  std::optional<std::vector<column>> columns(const statement& s) const;
  // Values as text; the error ends the statement.
  std::variant<std::vector<row>, sql_error> rows(const statement& s, const std::vector<bound>& parameters,
                                                 virtual_settings::reports& reports);

 private:
  struct evaluated {
    std::optional<std::string> text;
    type_oid type = type_oid::text;
  };
  using result = std::variant<evaluated, sql_error>;

  type_oid type_of(const expression& e) const;
  result evaluate(const expression& e);
  result call(const expression& e);
  result setting_call(const expression& e);
  result parameter(const expression& e) const;
  std::vector<row> shown(const std::optional<std::string>& name) const;

  const session_facts& facts_;
  virtual_settings& settings_;
  const std::set<std::string, std::less<>>& listening_;
  const std::vector<bound>* parameters_ = nullptr;
  virtual_settings::reports* reports_ = nullptr;
};

// A value's text in the binary form of its type; nullopt: this type is sent as text alone.
std::optional<std::string> to_binary(std::string_view text, type_oid type);

}  // namespace pgwaked::door
