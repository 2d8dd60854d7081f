#include "common/channel.hpp"

#include <catch2/catch.hpp>

using namespace pgwake;
using Catch::Contains;

TEST_CASE("S4: a name that is empty, has NUL or is longer than 63 bytes is refused, with the reason") {
  CHECK_THAT(channel_fault("").value(), Contains("empty"));
  CHECK_THAT(channel_fault(std::string("a\0b", 3)).value(), Contains("NUL"));
  CHECK_THAT(channel_fault(std::string(64, 'x')).value(), Contains("64 bytes") && Contains("63"));
  CHECK_FALSE(channel_fault(std::string(63, 'x')));
  // 21 characters of three bytes are 63 bytes, 22 are 66: bytes count, not characters.
  std::string kanji;
  for (int i = 0; i < 21; ++i) kanji += "日";
  CHECK_FALSE(channel_fault(kanji));
  CHECK_FALSE(length_fault(kanji));
  CHECK_THAT(length_fault(kanji + "本").value(), Contains("66 bytes"));
}

TEST_CASE("S4: in another encoding a character may be shorter, but takes a byte at least") {
  std::string accents;
  for (int i = 0; i < 63; ++i) accents += "é";
  CHECK_FALSE(channel_fault(accents));
  CHECK_THAT(channel_fault(accents + "e").value(), Contains("127 bytes"));
}

TEST_CASE("S4: of a name that is not UTF-8 nobody knows the characters: its bytes count") {
  CHECK_THAT(channel_fault(std::string(64, '\x80')).value(), Contains("64 bytes"));
  CHECK_THAT(channel_fault(std::string(32, 'x') + std::string(32, '\xBF')).value(), Contains("64 bytes"));
  CHECK_FALSE(channel_fault(std::string(63, '\x80')));
}

TEST_CASE("S4: every other name works, byte for byte") {
  for (const auto* name : {"UPPER", "with.dots", "with spaces", "\"", "it's", "select", "日本",
                           "x\"; DROP TABLE t; --", "\\", "$$", "\n", "\x01"})
    CHECK_FALSE(channel_fault(name));
}

TEST_CASE("case 3: quoting cannot be left") {
  CHECK(quote_identifier("x\"; DROP TABLE t; --") == "\"x\"\"; DROP TABLE t; --\"");
  CHECK(quote_identifier("") == "\"\"");
  CHECK(quote_identifier("\"\"") == "\"\"\"\"\"\"");
  CHECK(quote_literal("it's") == "E'it''s'");
  CHECK(quote_literal("a\\'b") == "E'a\\\\''b'");
}

TEST_CASE("queue template: exactly one {}") {
  for (const auto* bad : {"", "no place", "{}{}", "a{}b{}c", "{ }", "{"})
    CHECK_FALSE(queue_template::parse(bad));
  for (const auto* good : {"{}", "pgmq.q_{}.INSERT", "{}x", "x{}", "{{}}"})
    CHECK(queue_template::parse(good));
}

TEST_CASE("queue template: there and back") {
  const auto pgmq = *queue_template::parse("pgmq.q_{}.INSERT");
  CHECK(pgmq.channel("orders") == "pgmq.q_orders.INSERT");
  CHECK(pgmq.queue("pgmq.q_orders.INSERT") == std::optional<std::string_view>("orders"));
  CHECK(pgmq.queue("pgmq.q_.INSERT") == std::optional<std::string_view>(""));
  for (const auto* other : {"orders", "pgmq.q_orders", "q_orders.INSERT", "", "pgmq.q_INSERT"})
    CHECK_FALSE(pgmq.queue(other));
  const auto identity = *queue_template::parse("{}");
  CHECK(identity.channel("{}") == "{}");
  CHECK(identity.queue("any") == std::optional<std::string_view>("any"));
  // Front and back must not overlap in the channel.
  CHECK_FALSE(queue_template::parse("aba{}ba")->queue("aba"));
}

TEST_CASE("K1: globs") {
  struct row {
    const char* pattern;
    const char* text;
    bool match;
  };
  const row rows[] = {
      {"*", "", true},          {"*", "anything", true},   {"", "", true},        {"", "x", false},
      {"?", "x", true},         {"?", "", false},          {"?", "xy", false},    {"a*", "abc", true},
      {"a*", "ba", false},      {"*c", "abc", true},       {"*c", "abcd", false}, {"a*c", "ac", true},
      {"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false}, {"**", "x", true},     {"*a*", "bab", true},
      {"a?c", "abc", true},     {"a?c", "ac", false},      {"A", "a", false},     {"*.*", "a.b", true},
      {"*ab", "aab", true},     {"*aab", "aaab", true},    {"x*y", "x*y", true},  {"[a]", "a", false},
      {"*?", "", false},        {"*?", "a", true},         {"a*?b", "ab", false}};
  for (const auto& r : rows) {
    CAPTURE(r.pattern, r.text);
    CHECK(glob_match(r.pattern, r.text) == r.match);
  }
  CHECK_FALSE(glob_match("*a*a*a*a*a*a*a*b", std::string(2000, 'a')));  // and in no time
}
