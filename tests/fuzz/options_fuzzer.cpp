// Settings from all three places at once. Input: lines of the command line, then an empty line, then
// environment variables NAME=VALUE, then an empty line, then the file. Either everything is taken, and what
// `pgwaked config` prints can be read again, or there is a message for people.

#include <CLI/CLI.hpp>
#include <sstream>

#include "common/unicode.hpp"
#include "daemon/settings/options.hpp"
#include "daemon/settings/toml.hpp"
#include "fuzz/check.hpp"

namespace {

std::vector<std::string> lines(std::string_view& rest) {
  std::vector<std::string> out;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty()) break;
    out.emplace_back(line);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  if (rest.find('\0') != std::string_view::npos) return 0;  // neither arguments nor variables can hold one
  const auto arguments = lines(rest);
  pgwaked::surroundings world;
  for (const auto& line : lines(rest)) {
    const auto equals = line.find('=');
    if (equals != std::string::npos)
      world.environment.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  world.read_file = [rest](const std::string&) -> boost::system::result<std::string, pgwaked::value_error> {
    return {boost::system::in_place_value, rest};
  };
  world.names.user_id = [](const std::string& name) -> std::optional<std::uint32_t> {
    if (name == "root") return 0;
    return std::nullopt;
  };
  world.names.group_id = world.names.user_id;

  const auto loaded = pgwaked::load(arguments, world);
  if (!loaded) return 0;  // the message is empty where help was asked for
  std::ostringstream printed;
  pgwaked::print_config(printed, *loaded);
  FUZZ_CHECK(pgwaked::toml::parse(printed.str()).has_value());
  FUZZ_CHECK(pgwaked::differences(loaded->values, loaded->values).empty());
  return 0;
}
