#include "daemon/control.hpp"

#include <array>
#include <iostream>

#include "daemon/hub_client.hpp"
#include "daemon/options.hpp"
#include "daemon/standard_streams.hpp"
#include "daemon/terminal_text.hpp"

namespace pgwaked {
namespace {

constexpr std::chrono::seconds patience{5};
constexpr int refused = 1;
constexpr int wrong_usage = 2;
constexpr int not_running = 3;

int complain(const std::string& message, int code) {
  std::cerr << "pgwaked control: " << message << "\n";
  return code;
}

int complain(const hub_failure& failure) {
  return complain(failure.message, failure.running() ? refused : not_running);
}

}  // namespace

int control_command(const control_options& options) {
  constexpr std::array<std::string_view, 2> names = {"socket", "config"};
  const auto loaded = load(options.given, real_surroundings(), {names, false});
  if (!loaded) return complain(loaded.error().message, wrong_usage);
  auto hub = hub_client::open(loaded->values.socket, "pgwaked control", patience);
  if (!hub) return complain(hub.error());
  const auto answer = hub->control({options.what, options.arg});
  if (!answer) return complain(answer.error());
  if (!answer->ok) return complain(printable(answer->text), refused);
  std::cout << printable(answer->text) << "\n";
  return output_written("pgwaked control") ? 0 : refused;
}

}  // namespace pgwaked
