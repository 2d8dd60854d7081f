#pragma once

#include <array>
#include <random>
#include <string>
#include <string_view>

namespace pgwake::test {

// Connection strings with one password in them, nearly all of them wrong: separators of other languages, keys
// of any case, quotes that do not close. What follows a word that ends in password, or stands between `:` and
// `@`, is the password; it holds `Zq7` and `hush`.
class malformed_conninfo {
 public:
  explicit malformed_conninfo(unsigned seed) : random_(seed) {}

  std::string next() {
    const auto password = std::string("Zq7") + pick(inner) + "hush";
    std::string out;
    if (chance(2)) {
      out = pick(schemes) + std::string(chance(2) ? "u@" : "") + pick(hosts) + pick(paths);
      out += chance(2) ? pick(starts) : pick(separators);
    } else if (chance(3)) {
      out = some_pairs() + pick(separators);
    }
    if (chance(3))
      out += user_information(password);
    else
      out += pick(words) + std::string(pick(assigns)) + in_quotes(password);
    if (chance(2)) out += pick(separators) + some_pairs();
    return out;
  }

 private:
  template <std::size_t N>
  std::string pick(const std::array<std::string_view, N>& from) {
    return std::string(from[random_() % N]);
  }
  bool chance(unsigned one_in) { return random_() % one_in == 0; }

  std::string some_pairs() {
    std::string out = pick(pairs);
    while (chance(2)) out += pick(separators) + pick(pairs);
    return out;
  }
  std::string user_information(const std::string& password) {
    const auto before = chance(2) ? pick(pairs).substr(0, 5) : std::string();
    return before + pick(users) + ":" + password + "@" + pick(hosts) + pick(paths);
  }
  std::string in_quotes(const std::string& password) {
    const auto quote = pick(quotes);
    return quote + password + (chance(3) ? std::string() : quote);
  }

  static constexpr auto schemes = std::to_array<std::string_view>(
      {"postgresql://", "postgres://", "postgres:/", "Postgres://", "jdbc:postgresql://", " postgresql://",
       "postgresql:///", "database=postgresql://"});
  static constexpr auto hosts =
      std::to_array<std::string_view>({"h", "db.example", "h:5432", "h1:1,h2:2", "[::1]:5432", ""});
  static constexpr auto paths = std::to_array<std::string_view>({"", "/", "/shop", "/shop/", "//shop"});
  static constexpr auto users = std::to_array<std::string_view>({"u", "", "shop_1", "a.b"});
  static constexpr auto starts = std::to_array<std::string_view>(
      {"?", "?sslmode=require&", "?sslmode=require?", "?user=u;", "?user=u,", "?user=u ", "?&", "??"});
  static constexpr auto separators = std::to_array<std::string_view>(
      {";", "&", ",", "\t", "|", "; ", " ; ", "?", "#", "/", " ", "\n", "\r\n", "&&", ";;", " & ", "%3B"});
  static constexpr auto pairs = std::to_array<std::string_view>(
      {"host=h", "port=1", "user = u", "dbname='shop'", "sslmode=require", "options='-c x=1'", "Host=h",
       "database=shop", "host='h", "application_name=a b", "passfile=/p", "port", "=", "user=u@h"});
  static constexpr auto words = std::to_array<std::string_view>(
      {"password", "Password", "PASSWORD", "sslpassword", "SSLPassword", "PGPASSWORD", "db_password",
       "--password", "\"password\"", "user-password", "'password'"});
  static constexpr auto assigns = std::to_array<std::string_view>(
      {"=", " = ", ":", ": ", "==", "=\t", " ", "\t", " =", "= ", ":=", "\n=\n"});
  static constexpr auto inner = std::to_array<std::string_view>({"", "", "", "%", "!", "=", "$", "*", "\\"});
  static constexpr auto quotes = std::to_array<std::string_view>({"", "", "", "'", "\""});

  std::mt19937 random_;
};

// Whether any part of such a string's password shows.
inline bool shows_password(std::string_view text) {
  return text.find("Zq7") != text.npos || text.find("hush") != text.npos;
}

}  // namespace pgwake::test
