#include "daemon/settings/option_value.hpp"

#include <catch2/catch.hpp>

using namespace pgwaked;

namespace {

std::optional<std::uint32_t> user_id(const std::string& name) {
  if (name == "www-data") return 33;
  return std::nullopt;
}

std::optional<std::uint32_t> group_id(const std::string& name) {
  if (name == "web") return 1'000;
  return std::nullopt;
}

}  // namespace

TEST_CASE("options: the table's defaults are those of settings.hpp") {
  for (const option& each : option_table()) {
    if (each.initial.empty()) continue;
    CAPTURE(each.name);
    settings values;
    CHECK(assign(each, {std::string(each.initial)}, {}, values) == std::nullopt);
    CHECK(values == settings{});
  }
}

TEST_CASE("options: allow rules") {
  const name_resolver names{user_id, group_id};
  const auto rule = [&](const char* text) { return *parse_allow_rule(text, names); };
  CHECK(rule("*").kind == allow_rule::who::everyone);
  CHECK(rule("*").globs.empty());
  CHECK(rule("user:www-data").kind == allow_rule::who::uid);
  CHECK(rule("user:www-data").id == 33);
  CHECK(rule("group:web").kind == allow_rule::who::gid);
  CHECK(rule("group:web").id == 1'000);
  CHECK(rule("uid:0").id == 0);
  CHECK(rule("gid:4294967294").id == 4'294'967'294);
  const allow_rule globs = rule("  uid:33 \t shop.*, my channel ,?  ");
  CHECK(globs.globs == std::vector<std::string>{"shop.*", "my channel", "?"});
  CHECK(globs.text == "uid:33 \t shop.*, my channel ,?");
}

TEST_CASE("options: addresses for metrics") {
  const auto address = [](const char* text) { return *parse_metrics_address(text); };
  CHECK(address("off").kind == metrics_address::family::off);
  CHECK(address("").kind == metrics_address::family::off);
  CHECK(address("localhost:9187") == address("127.0.0.1:9187"));
  CHECK(address("[::1]:1").host == "::1");
  CHECK(address("unix:/run/m.sock").path == "/run/m.sock");
  for (const char* text : {"127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/m", "off"})
    CHECK_FALSE(address(text).leaves_the_host());
  for (const char* text : {"0.0.0.0:1", "[::]:1", "192.0.2.7:1", "[2001:db8::1]:1"}) {
    CHECK(address(text).leaves_the_host());
    CHECK(to_string(address(text)) == text);
  }
  for (const char* text : {":1", "db1.example:1", "::1:1", "[127.0.0.1]:1", "[]:1", "1.2.3:1"})
    CHECK(parse_metrics_address(text).has_error());
  for (const char* text : {"off", "127.0.0.1:9187", "[::1]:65535", "unix:/run/m.sock"}) {
    CHECK(to_string(address(text)) == text);
  }
}
