#include "daemon/app/run.hpp"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/app/app.hpp"
#include "daemon/app/engine_config.hpp"
#include "daemon/io/log.hpp"
#include "daemon/settings/options.hpp"
#include "daemon/terminal/standard_streams.hpp"

namespace pgwaked {
namespace {

// At the end: longer than any reader that reads needs, shorter than a service manager waits.
constexpr std::chrono::milliseconds log_patience{1'000};

int wrong_usage(const usage_error& error) {
  std::cerr << "pgwaked: " << error.message << "\n";
  return usage_error::exit_code;
}

// A file on a mount that hangs, or a name service that does not answer, must not hold a start without a word.
constexpr std::chrono::seconds start_patience{20};

boost::system::result<loaded, usage_error> load_in_time(const command_values& given) {
  using outcome_of_load = boost::system::result<loaded, usage_error>;
  const auto task = std::make_shared<std::packaged_task<outcome_of_load()>>([given] {
    auto configuration = load(given, real_surroundings());
    if (configuration)
      if (auto fault = database_fault(*configuration); !fault.empty())
        configuration = usage_error{std::move(fault)};
    return configuration;
  });
  auto outcome = task->get_future();
  try {
    std::thread([task] { (*task)(); }).detach();
  } catch (const std::system_error&) {  // no thread is to be had: then without a deadline
    (*task)();
  }
  if (outcome.wait_for(start_patience) == std::future_status::ready) return outcome.get();
  std::cerr
      << "pgwaked: the settings are not read after " << start_patience.count()
      << " s: a settings file or database_file lies on a mount that hangs, or the name service does not "
         "answer for a name in allow or socket_group (uid:33 and gid:33 need none)\n";
  std::_Exit(1);
}

}  // namespace

int run_command(const command_values& given) {
  auto configuration = load_in_time(given);
  if (!configuration) return wrong_usage(configuration.error());
  log out(configuration->values.log_level, configuration->values.log_format);
  try {
    app daemon(std::move(*configuration), given, out);
    const int code = daemon.run();
    const bool flushed = out.close(log_patience);
    if (daemon.leaves_a_thread() || !flushed) std::_Exit(code);
    return code;
  } catch (const std::exception& e) {
    out.error("could not start", pgwake::log_fields().add("reason", e.what()));
    if (!out.close(log_patience)) std::_Exit(1);
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
