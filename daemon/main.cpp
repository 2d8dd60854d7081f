#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "daemon/command_line.hpp"
#include "daemon/run.hpp"

int main(int argc, char** argv) {
  using namespace pgwaked;
  CLI::App app{"pgwaked: one LISTEN connection per host, however many workers", "pgwaked"};
  app.set_version_flag("--version", "pgwaked " PGWAKE_VERSION_STRING);
  app.require_subcommand(1);

  command_values run_values;
  command_values config_values;
  auto* run = app.add_subcommand("run", "Run the daemon in the foreground; logs go to stderr");
  add_options(*run, run_values);
  auto* config = app.add_subcommand("config", "Show the effective settings and where each came from");
  add_options(*config, config_values);

  const auto outcome = parse_command(app, {argv + 1, argv + argc});
  std::cout << outcome.out;
  std::cerr << outcome.err;
  if (!outcome.go_on) return outcome.exit_code;
  if (run->parsed()) return run_command(run_values);
  return config_command(config_values);
}
