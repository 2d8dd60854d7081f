#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace pgwaked {

// What the command line gave, by option name, not yet parsed. `run` keeps it for reloads.
using command_values = std::map<std::string, std::vector<std::string>, std::less<>>;

// Registers options of the table on `app`; parsing fills `into`, which must outlive `app`. No names: all.
void add_options(CLI::App& app, command_values& into, std::span<const std::string_view> names = {});

// A parsed command line, or what to print and how to exit instead.
struct command_outcome {
  bool go_on = true;
  int exit_code = 0;
  std::string out;  // for stdout: help or version
  std::string err;  // for stderr: what was wrong, with the nearest name; one line and its end
};
// `args` without the program's name. Never exits, throws none of CLI's errors, prints nothing.
command_outcome parse_command(CLI::App& app, std::vector<std::string> args);

}  // namespace pgwaked
