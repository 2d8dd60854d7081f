#include "daemon/settings/toml.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "common/unicode.hpp"

using pgwaked::toml::entry;
using pgwaked::toml::parse;
using pgwaked::toml::quote;
using pgwaked::toml::value_type;

namespace {

value_type only(std::string_view text) {
  const auto parsed = parse(text);
  INFO((parsed ? std::string() : parsed.error().message));
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->size() == 1);
  return parsed->front().value;
}

std::string text_of(std::string_view text) { return std::get<std::string>(only(text)); }

using strings = std::vector<std::string>;

}  // namespace

TEST_CASE("toml: comments, blank lines and settings, each with its line") {
  const auto parsed = parse(
      "# a comment = 1\n"
      "\n"
      "  socket = \"/run/a.sock\"   # another\r\n"
      "\tmax_workers=10\n"
      "\"quoted key\" = true\n"
      "'literal' = false");
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->size() == 4);
  const auto& all = *parsed;
  CHECK(all[0].key == "socket");
  CHECK(all[0].line == 3);
  CHECK(std::get<std::string>(all[0].value) == "/run/a.sock");
  CHECK(all[1].key == "max_workers");
  CHECK(all[1].line == 4);
  CHECK(std::get<std::int64_t>(all[1].value) == 10);
  CHECK(all[2].key == "quoted key");
  CHECK(std::get<bool>(all[2].value));
  CHECK(all[3].key == "literal");
  CHECK(!std::get<bool>(all[3].value));
  CHECK(all[3].line == 6);
}

TEST_CASE("toml: an empty file, or one of comments alone, sets nothing") {
  for (const std::string_view text :
       {"", "\n", "#", "# x", " \t ", "\r\n\r\n", "\xEF\xBB\xBF# with a BOM\n"}) {
    const auto parsed = parse(text);
    REQUIRE(parsed.has_value());
    CHECK(parsed->empty());
  }
}

TEST_CASE("toml: a string keeps what stands between its quotes, # and spaces included") {
  CHECK(text_of(R"(a = "host=/run/pg dbname=x # no comment")") == "host=/run/pg dbname=x # no comment");
  CHECK(text_of(R"(a = 'C:\no\escape "q" # x')") == R"(C:\no\escape "q" # x)");
  CHECK(text_of(R"(a = "")").empty());
  CHECK(text_of(R"(a = '')").empty());
  CHECK(text_of("a = \"tab\there\"") == "tab\there");
  CHECK(text_of(R"(a = "\b\t\n\f\r\"\\")") == "\b\t\n\f\r\"\\");
  CHECK(text_of(R"(a = "\u00e9\u65E5\U0001F600")") == "é日😀");
  CHECK(text_of("a = \"日本 😀\"") == "日本 😀");
}

TEST_CASE("toml: integers are decimal, up to their limits") {
  CHECK(std::get<std::int64_t>(only("a = 0")) == 0);
  CHECK(std::get<std::int64_t>(only("a = -17")) == -17);
  CHECK(std::get<std::int64_t>(only("a = +17")) == 17);
  CHECK(std::get<std::int64_t>(only("a = 65_536")) == 65'536);
  CHECK(std::get<std::int64_t>(only("a = 9223372036854775807")) == INT64_MAX);
  CHECK(std::get<std::int64_t>(only("a = -9223372036854775808")) == INT64_MIN);
}

TEST_CASE("toml: an array of strings may span lines, with comments and a last comma") {
  CHECK(std::get<strings>(only("a = []")).empty());
  CHECK(std::get<strings>(only("a = [ ]")).empty());
  CHECK(std::get<strings>(only("a = ['x', \"y\"]")) == strings{"x", "y"});
  const auto parsed = parse("allow = [ # who\n  \"uid:33 a]b\", # the web\n\n  'gid:5',\n] # end\nb = 1\n");
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->size() == 2);
  CHECK(std::get<strings>((*parsed)[0].value) == strings{"uid:33 a]b", "gid:5"});
  CHECK((*parsed)[0].line == 1);
  CHECK((*parsed)[1].line == 6);
}

TEST_CASE("toml: whatever else is an error with its line and what to write") {
  struct row {
    std::string_view text;
    int line;
    const char* message;
  };
  using namespace std::string_view_literals;
  const row each = GENERATE(
      row{"a = 1\n[server]\n", 2, "tables"}, row{"[[x]]", 1, "tables"}, row{"a.b = 1", 1, "dotted keys"},
      row{"\"a\".b = 1", 1, "dotted keys"}, row{"a = { b = 1 }", 1, "inline tables"},
      row{"a = 1.5", 1, "must be quoted"}, row{"a = 1e3", 1, "must be quoted"},
      row{"a = inf", 1, "must be quoted"}, row{"a = 2026-01-01", 1, "must be quoted"},
      row{"a = 0x10", 1, "must be quoted"}, row{"heartbeat = 5s", 1, "write heartbeat = \"...\""},
      row{"a = yes", 1, "write a = \"...\""}, row{"a = True", 1, "must be quoted"},
      row{"a = 0660", 1, "such as \"0660\""}, row{"a = 1__0", 1, "underscore"},
      row{"a = 1_", 1, "underscore"}, row{"a = -", 1, "must be quoted"},
      row{"a = 9223372036854775808", 1, "too large"}, row{"a = -9223372036854775809", 1, "too large"},
      row{"a = \"\"\"x\"\"\"", 1, "multi-line"}, row{"a = '''x'''", 1, "multi-line"},
      row{"\n\na = \"x", 3, "closing \""}, row{"a = 'x\n'", 1, "closing '"},
      row{"a = \"x\\", 1, "after a backslash"}, row{"a = \"\\e\"", 1, "after a backslash"},
      row{"a = \"\\x41\"", 1, "after a backslash"}, row{"a = \"\\u12\"", 1, "hexadecimal"},
      row{"a = \"\\u12", 1, "hexadecimal"}, row{"a = \"\\ud800\"", 1, "no character"},
      row{"a = \"\\U00110000\"", 1, "no character"}, row{"a = \"\\u0000\"", 1, "NUL"},
      row{"a = 1\na = 2", 2, "set twice; it was first set in line 1"}, row{"a = 1\n'a' = 2", 2, "set twice"},
      row{"a", 1, "'=' is missing after a"}, row{"a\n= 1", 1, "'=' is missing"},
      row{"a =", 1, "the value is missing"}, row{"a = # x", 1, "the value is missing"},
      row{"= 1", 1, "no setting"}, row{"\"\" = 1", 1, "may not be empty"},
      row{"a = 1 b = 2", 1, "after the value of a"}, row{"a = \"x\" y", 1, "after the value of a"},
      row{"a = [1]", 1, "quoted texts alone"}, row{"a = [[\"x\"]]", 1, "quoted texts alone"},
      row{"a = [\n\"x\"\n\"y\"]", 3, "comma is missing"}, row{"a = [,]", 1, "quoted texts alone"},
      row{"b = 1\na = [\n\"x\",\n", 2, "no closing ]"}, row{"a = [\"x\"", 1, "no closing ]"},
      row{"a = 1\n\xFF", 2, "not UTF-8"}, row{"# \xC0\x80", 1, "not UTF-8"},
      row{"a = \"\xED\xA0\x80\"", 1, "not UTF-8"}, row{"a = 1\nb\0"sv, 2, "NUL byte"},
      row{"a = \"\x01\"", 1, "control character"}, row{"# \x7f", 1, "control character"},
      row{"a = 1\rb = 2", 1, "control character"}, row{"& = 1", 1, "no setting"});
  CAPTURE(each.text);
  const auto parsed = parse(each.text);
  REQUIRE(parsed.has_error());
  CAPTURE(parsed.error().message);
  CHECK(parsed.error().line == each.line);
  CHECK_THAT(parsed.error().message, Catch::Contains(each.message));
}

TEST_CASE("toml: every line that cannot be read is told, and the others are read") {
  const auto lines = [](std::string_view text) {
    std::string out;
    const auto all = pgwaked::toml::read(text);
    for (const auto& each : all.errors) out += std::to_string(each.line) + " ";
    for (const entry& each : all.entries) out += each.key + "@" + std::to_string(each.line) + " ";
    return out;
  };
  CHECK(lines("a = 2s\nb = 3s\nc = 1\n") == "1 2 c@3 ");
  CHECK(lines("a\nb = \"x\n\n# c\nd = 1 2\ne = 1") == "1 2 5 e@6 ");
  CHECK(lines("[t]\na = 1\n{}") == "1 3 a@2 ");
  // The rest of a broken array is no setting of its own.
  CHECK(lines("a = [\n\"x\",\nnonsense,\n\"y\"\n]\nb = 1") == "3 b@6 ");
  CHECK(lines("a = [ x,\n\"y\",\n]\nb = 2s\nc = 1") == "1 4 c@5 ");
  // Nor does an array without an end take the settings behind it.
  CHECK(lines("a = [\"x\"\nb = 1\nc = 1") == "2 b@2 c@3 ");
  CHECK(lines("a = [\"x\",\nb = 1\n") == "2 b@2 ");
  CHECK(lines("a = [\"x\",") == "1 ");
  CHECK(lines("a = 1\n\xFF\nb = x") == "2 ");  // no text at all
  std::string many;
  for (int i = 0; i < 1'000; ++i) many += "nonsense\n";
  CHECK(pgwaked::toml::read(many).errors.size() == 20);
}

TEST_CASE("case 38: an unquoted connection string is refused without showing it") {
  for (const char* text :
       {"database = postgresql://u:hush@h/d", "database = password=hush", "password = 0hush",
        "postgresql://u:hush@h/d", "database = \"host=h\" password=hush"}) {
    const auto parsed = parse(text);
    REQUIRE(parsed.has_error());
    CHECK_THAT(parsed.error().message, !Catch::Contains("hush"));
  }
}

TEST_CASE("toml: what is quoted reads back the same") {
  for (const char* text : {"", "plain", "q\"b\\n", "line\nbreak\ttab\r", "\x01\x1f\x7f", "日本 # \u2028"}) {
    CHECK(text_of("a = " + quote(text)) == text);
  }
}

TEST_CASE("toml: any bytes at all are read or refused, and what is read is text") {
  // A small, seeded taste of the fuzzing that runs elsewhere.
  std::mt19937 random(20'260'101);
  const std::string_view alphabet("ab=\"'[],#\\\n\r \t\0u0{.-_1\xC3\xA9", 25);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto left = random() % 24; left > 0; --left) text += alphabet[random() % alphabet.size()];
    const auto parsed = parse(text);
    for (const auto& each : pgwaked::toml::read(text).errors)
      if (each.line < 1 || each.message.empty()) FAIL("no message for " + text);
    if (!parsed) {
      const bool told = parsed.error().line >= 1 && !parsed.error().message.empty();
      if (!told) FAIL("no message for " + text);
      continue;
    }
    for (const entry& each : *parsed) {
      const auto* value = std::get_if<std::string>(&each.value);
      const bool clean = !each.key.empty() && (value == nullptr || pgwake::is_utf8(*value));
      if (!clean) FAIL("not text: " + text);
    }
  }
}
