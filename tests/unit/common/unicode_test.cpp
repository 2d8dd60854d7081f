#include "common/unicode.hpp"

#include <catch2/catch.hpp>

using namespace pgwake;

namespace {

struct row {
  const char* what;
  std::string bytes;
  bool good;
};

const std::vector<row> rows = {
    {"nothing", "", true},
    {"ASCII", "hello, world and more than eight bytes", true},
    {"NUL", std::string("a\0b", 3), true},
    {"two bytes, lowest", "\xC2\x80", true},
    {"two bytes, highest", "\xDF\xBF", true},
    {"three bytes, lowest", "\xE0\xA0\x80", true},
    {"just below the surrogates", "\xED\x9F\xBF", true},
    {"just above the surrogates", "\xEE\x80\x80", true},
    {"U+2028", "\xE2\x80\xA8", true},
    {"U+FFFF", "\xEF\xBF\xBF", true},
    {"four bytes, lowest", "\xF0\x90\x80\x80", true},
    {"U+10FFFF", "\xF4\x8F\xBF\xBF", true},
    {"emoji after ASCII", "eight by\xF0\x9F\x90\x98tes and on", true},
    {"a lone continuation", "\x80", false},
    {"0xC0", "\xC0\x80", false},
    {"overlong slash", "\xC1\xAF", false},
    {"overlong three bytes", "\xE0\x9F\xBF", false},
    {"overlong four bytes", "\xF0\x8F\xBF\xBF", false},
    {"high surrogate", "\xED\xA0\x80", false},
    {"low surrogate", "\xED\xBF\xBF", false},
    {"above U+10FFFF", "\xF4\x90\x80\x80", false},
    {"0xF5", "\xF5\x80\x80\x80", false},
    {"0xFF", "\xFF", false},
    {"cut after one of two", "abc\xC3", false},
    {"cut after two of three", "\xE2\x82", false},
    {"cut after three of four", "\xF0\x9F\x90", false},
    {"bad byte in the middle of a word", "abcdefg\xE9hijklmnop", false},
    {"LATIN1 at the end of many", "0123456789abcdef0123456789abcde\xE9", false},
};

}  // namespace

TEST_CASE("unicode: strict UTF-8, and no more than UTF-8") {
  for (const auto& r : rows) {
    CAPTURE(r.what);
    CHECK(is_utf8(r.bytes) == r.good);
  }
}

TEST_CASE("D6: what is UTF-8 stays byte for byte, what is not becomes UTF-8") {
  for (const auto& r : rows) {
    CAPTURE(r.what);
    const auto replaced = replace_bad_utf8(r.bytes);
    CHECK(is_utf8(replaced));
    CHECK((replaced == r.bytes) == r.good);
  }
}

TEST_CASE("D6: U+FFFD stands for each bad byte") {
  const std::string mark = "\xEF\xBF\xBD";
  CHECK(replace_bad_utf8("caf\xE9") == "caf" + mark);
  CHECK(replace_bad_utf8("\xE2\x82") == mark + mark);
  CHECK(replace_bad_utf8("\xE2\x82z\xC3\xA9") == mark + mark + "z\xC3\xA9");
  CHECK(replace_bad_utf8("\xED\xA0\x80") == mark + mark + mark);
}
