#include "daemon/run.hpp"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <utility>

#include "daemon/app.hpp"
#include "daemon/engine_config.hpp"
#include "daemon/log.hpp"
#include "daemon/options.hpp"
#include "daemon/standard_streams.hpp"

namespace pgwaked {
namespace {

int wrong_usage(const usage_error& error) {
  std::cerr << "pgwaked: " << error.message << "\n";
  return usage_error::exit_code;
}

}  // namespace

int run_command(const command_values& given) {
  auto configuration = load(given, real_surroundings());
  if (!configuration) return wrong_usage(configuration.error());
  if (auto fault = database_fault(*configuration); !fault.empty()) return wrong_usage({std::move(fault)});
  log out(configuration->values.log_level, configuration->values.log_format);
  try {
    app daemon(std::move(*configuration), given, out);
    const int code = daemon.run();
    if (daemon.leaves_a_thread()) std::_Exit(code);
    return code;
  } catch (const std::exception& e) {
    out.error("could not start", e.what());
    return 1;
  }
}

int config_command(const command_values& given, bool check) {
  const auto configuration = load(given, real_surroundings());
  if (!configuration) return wrong_usage(configuration.error());
  if (auto fault = database_fault(*configuration); !fault.empty()) return wrong_usage({std::move(fault)});
  if (check) return 0;
  print_config(std::cout, *configuration);
  for (const auto& w : configuration->warnings) std::cerr << "pgwaked: warning: " << w << "\n";
  return output_written("pgwaked config") ? 0 : 1;
}

}  // namespace pgwaked
