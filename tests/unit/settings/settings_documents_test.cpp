// Holds config/pgwaked.toml and docs/configure.md to the table of settings.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/settings/options.hpp"

using namespace pgwaked;

TEST_CASE("documents: config/pgwaked.toml has every setting, in the table's order, with its default") {
  std::ifstream file(PGWAKE_SOURCE_DIR "/config/pgwaked.toml");
  REQUIRE(file);
  std::string enabled;  // the file with every setting's # taken away
  std::string comment;  // the paragraph before a setting
  std::vector<std::string> settings_found;
  for (std::string line; std::getline(file, line);) {
    CHECK(line.size() <= 115);
    const bool setting = line.size() > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';
    if (!setting) {
      comment = line.empty() ? "" : comment + line;
      continue;
    }
    const std::string name = line.substr(1, line.find(' ') - 1);
    CAPTURE(line);
    const option* which = find_option(name);
    REQUIRE(which != nullptr);
    CHECK(line == "#" + name + " = " + show(*which, settings{}));
    CHECK(comment.size() > 40);
    CHECK((comment.find("(restart)") == comment.npos) == which->reloadable);
    settings_found.push_back(name);
    enabled += line.substr(1) + "\n";
  }
  std::vector<std::string> expected;
  for (const option& each : option_table()) {
    if (each.name != "config") expected.emplace_back(each.name);  // a file cannot name itself
  }
  CHECK(settings_found == expected);
  surroundings world;
  world.read_file = [&](const std::string&) -> boost::system::result<std::string, value_error> {
    return {boost::system::in_place_value, enabled};
  };
  const auto result = load(command_values{{"config", {"x"}}}, world);
  REQUIRE(result.has_value());
  settings values = result->values;
  values.config.clear();
  CHECK(values == settings{});
}

TEST_CASE("documents: docs/configure.md has every setting, with its form, default and reload") {
  std::ifstream file(PGWAKE_SOURCE_DIR "/docs/configure.md");
  REQUIRE(file);
  const std::string begin = "| `";
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, begin.size(), begin) != 0) continue;
    const std::string name = line.substr(begin.size(), line.find('`', begin.size()) - begin.size());
    CAPTURE(line);
    const option* which = find_option(name);
    REQUIRE(which != nullptr);
    const std::string initial = which->initial.empty() ? "none" : "`" + std::string(which->initial) + "`";
    CHECK_THAT(line, Catch::StartsWith("| `" + name + "` | " + accepted_form(*which) + " | " + initial +
                                       " | " + (which->reloadable ? "yes" : "restart") + " | "));
    found.push_back(name);
  }
  std::vector<std::string> expected;
  for (const option& each : option_table()) expected.emplace_back(each.name);
  CHECK(found == expected);
}

TEST_CASE("documents: variables that hub and client share are told in docs/configure.md and docs/client.md") {
  const auto content = [](const std::string& path) {
    std::ifstream file(PGWAKE_SOURCE_DIR + path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  // The part of a document from a heading to the next.
  const auto section = [](const std::string& text, const std::string& heading) {
    const auto begin = text.find("\n## " + heading + "\n");
    REQUIRE(begin != text.npos);
    return text.substr(begin, text.find("\n## ", begin + 1) - begin);
  };
  const auto client = content("/docs/client.md");
  const auto here = section(content("/docs/configure.md"), "Variables of other parts");
  const auto there = section(client, "Variables shared with the hub");
  const std::string before = "` | `PGWAKE_";  // of a row in the client's table of options
  std::size_t shared = 0;
  for (auto at = client.find(before); at != client.npos; at = client.find(before, at + 1)) {
    const auto begin = at + before.size() - 7;
    const auto variable = client.substr(begin, client.find('`', begin) - begin);
    CAPTURE(variable);
    CHECK(known_environment(variable));
    bool hubs = false;
    for (const option& each : option_table()) hubs = hubs || environment_of(each.name) == variable;
    if (hubs) ++shared;
    CHECK((here.find("`" + variable + "`") != here.npos) >= hubs);
    CHECK((there.find("`" + variable + "`") != there.npos) >= hubs);
  }
  CHECK(shared == 6);
}
