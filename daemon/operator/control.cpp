#include "daemon/operator/control.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <optional>

#include "common/unicode.hpp"
#include "daemon/operator/hub_client.hpp"
#include "daemon/settings/options.hpp"
#include "daemon/settings/toml.hpp"
#include "daemon/terminal/standard_streams.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

constexpr std::chrono::seconds patience{5};
constexpr int refused = 1;
constexpr int wrong_usage = 2;
constexpr int not_running = 3;
constexpr int no_answer = 4;

int complain(const std::string& message, int code) {
  std::cerr << "pgwaked control: " << message << "\n";
  return code;
}

int complain(const hub_failure& failure) {
  return complain(failure.message, failure.unanswered() ? no_answer
                                   : failure.running()  ? refused
                                                        : not_running);
}

// What is wrong whatever the hub may say.
std::optional<std::string> usage_fault(const control_options& options) {
  if (options.what == "log-level") {
    settings scratch;
    return assign(*find_option("log_level"), {options.arg}, {}, scratch);
  }
  if (options.what != "evict") return std::nullopt;
  std::uint64_t id = 0;
  const auto end = options.arg.data() + options.arg.size();
  const auto [at, error] = std::from_chars(options.arg.data(), end, id);
  if (error == std::errc() && at == end) return std::nullopt;
  return toml::quote(pgwake::replace_bad_utf8(options.arg)) +
         " is no worker's number; `pgwaked status` lists them";
}

}  // namespace

int control_command(const control_options& options) {
  if (const auto fault = usage_fault(options)) return complain(*fault, wrong_usage);
  constexpr std::array<std::string_view, 2> names = {"socket", "config"};
  const auto loaded = load(options.given, real_surroundings(), {names, false});
  if (!loaded) return complain(loaded.error().message, wrong_usage);
  auto hub = hub_client::open(hub_socket(*loaded), "pgwaked control", patience);
  if (!hub) return complain(hub.error());
  const auto answer = hub->control({options.what, options.arg});
  if (!answer) return complain(answer.error());
  if (!answer->ok) return complain(printable(answer->text), refused);
  std::cout << printable(answer->text) << "\n";
  return output_written("pgwaked control") ? 0 : refused;
}

}  // namespace pgwaked
