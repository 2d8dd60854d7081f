#include "daemon/door/sql_scanner.hpp"

#include <catch2/catch.hpp>

using namespace pgwaked::door;
using kind = sql_token::kind;

namespace {

// The tokens in words: their kind's letter and text.
std::string words(std::string_view sql, bool backslashes = false) {
  const auto s = scan_sql(sql, backslashes);
  std::string out;
  for (const auto& t : s.tokens) {
    static constexpr std::string_view letters = "wnsb0$.";
    out +=
        (out.empty() ? "" : " ") + std::string(1, letters[static_cast<std::size_t>(t.what)]) + ":" + t.text;
  }
  if (s.error) out += (out.empty() ? "!" : " !") + s.error->sqlstate;
  return out;
}

}  // namespace

TEST_CASE("door: words fold in ASCII, names keep what they are") {
  CHECK(words("LISTEN Orders_1") == "w:listen w:orders_1");
  CHECK(words("listen \"Orders\"\"2\"") == "w:listen n:Orders\"2");
  CHECK(words("LISTEN ÄB$c") == "w:listen w:Äb$c");
  CHECK(words("a.b(c),*") == "w:a .:. w:b .:( w:c .:) .:, .:*");
}

TEST_CASE("door: comments are white space, and nest") {
  CHECK(words("-- ping").empty());
  CHECK(words("/* a /* b */ c */ x") == "w:x");
  CHECK(words("a--b\nc") == "w:a w:c");
  CHECK(words("a/**/b") == "w:a w:b");
  CHECK(words("/* a /* b */") == "!42601");
}

TEST_CASE("door: string constants of every form") {
  CHECK(words("'it''s; --no'") == "s:it's; --no");
  CHECK(words("'a'\n  'b'") == "s:ab");
  CHECK(words("'a' 'b'") == "s:a s:b");
  CHECK(words("'a' -- why\n 'b'") == "s:a s:b");
  CHECK(words("'a'\n -- why\n 'b'") == "s:ab");
  CHECK(words("E'a\\n\\x41\\101\\u00e9\\U0001F600\\''") == "s:a\nAAé😀'");
  CHECK(words("'a\\b'") == "s:a\\b");
  CHECK(words("'a\\'b'", true) == "s:a'b");
  CHECK(words("U&'d\\0061t\\+000061'") == "s:data");
  CHECK(words("U&'d!0061t' UESCAPE '!'") == "s:dat");
  CHECK(words("U&'\\D83D\\DE00'") == "s:😀");
  CHECK(words("$$a;'b$$") == "s:a;'b");
  CHECK(words("$f$ $$ $f$") == "s: $$ ");
  CHECK(words("B'01' x'AF'") == "b:01 b:AF");
  CHECK(words("N'a'") == "s:a");
}

TEST_CASE("door: names with Unicode escapes") {
  CHECK(words("U&\"d\\0061t\\+000061\"") == "n:data");
  CHECK(words("U&\"a*0062\" UESCAPE '*'") == "n:ab");
  CHECK(words("u & \"a\"") == "w:u .:& n:a");
}

TEST_CASE("door: numbers, parameters and symbols") {
  CHECK(words("1 1.5 .5 1e3 1e-3") == "0:1 0:1.5 0:.5 0:1e3 0:1e-3");
  CHECK(words("$1::text $12") == "$:1 .::: w:text $:12");
  CHECK(words("a<=b-- c") == "w:a .:<= w:b");
  CHECK(words("1;2") == "0:1 .:; 0:2");
}

TEST_CASE("door: what PostgreSQL's scanner refuses") {
  for (const auto* sql :
       {"'open", "\"open", "$$open", "$a$open$b$", "\"\"", "U&\"\"", "E'\\", "/*", "1x", "B'0", "U&\"\\00\"",
        "U&\"\\D83D\"", "E'\\ud83d'", "U&'a' UESCAPE '1'", "U&'a' UESCAPE"}) {
    INFO(sql);
    CHECK(scan_sql(sql).error);
  }
  CHECK(scan_sql("E'\\x00'").error->sqlstate == "22021");
  CHECK(scan_sql("E'\\u12'").error->sqlstate == "22025");
  CHECK(scan_sql("U&'a'", true).error->sqlstate == "0A000");
}
