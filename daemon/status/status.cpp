#include "daemon/status/status.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <iostream>

#include "daemon/operator/hub_client.hpp"
#include "daemon/settings/options.hpp"
#include "daemon/status/exit_codes.hpp"
#include "daemon/status/text.hpp"
#include "daemon/status/watch.hpp"
#include "daemon/terminal/standard_streams.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;
constexpr std::size_t widest = 120;

int complain(const std::string& message, int code) {
  std::cerr << "pgwaked status: " << message << "\n";
  return code;
}

int exit_code_of(const hub_failure& failure) {
  if (failure.unanswered()) return status_no_answer;
  return failure.running() ? status_degraded : status_not_running;
}

// The terminal's width, or that of a page where nobody watches.
std::size_t width_of_output() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return std::min<std::size_t>(size.ws_col, widest);
  return widest;
}

int print_once(const std::string& socket, bool as_json) {
  auto hub = hub_client::open(socket, "pgwaked status", patience);
  if (!hub) return complain(hub.error().message, exit_code_of(hub.error()));
  const auto json = hub->stats();
  if (!json) return complain(json.error().message, exit_code_of(json.error()));
  const auto status = parse_status(*json);
  if (!status) return complain("the hub's answer is no JSON object", status_no_answer);
  std::cout << (as_json ? printable_json(*json) + "\n" : status_text(*status, socket, width_of_output()));
  if (!output_written("pgwaked status")) return status_degraded;
  return status->healthy ? status_healthy : status_degraded;
}

}  // namespace

int status_command(const status_options& options) {
  constexpr std::array<std::string_view, 2> names = {"socket", "config"};
  const auto loaded = load(options.given, real_surroundings(), {names, false});
  if (!loaded) return complain(loaded.error().message, status_wrong_usage);
  const auto socket = hub_socket(*loaded);
  if (!options.watch) return print_once(socket, options.json);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)
    return complain("--watch needs a terminal; without one, call `pgwaked status --json` now and then",
                    status_wrong_usage);
  return watch_status(socket);
}

}  // namespace pgwaked
