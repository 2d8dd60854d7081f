#include "support/hub_daemon.hpp"

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string_view>

#include "support/programs.hpp"

extern char** environ;

namespace pgwake::test {
namespace {

constexpr std::size_t log_shown = 4000;

}  // namespace

std::string pgwaked_path() {
  const char* path = std::getenv("PGWAKED");
  return for_every_user(path != nullptr ? path : PGWAKE_TEST_PGWAKED);
}

process_options pgwaked_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), pgwaked_path());
  process_options options{.argv = std::move(arguments)};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const std::string_view prefix : {"PG", "LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_", "JOURNAL_STREAM"})
      if (text.substr(0, prefix.size()) == prefix) options.unset.emplace_back(text.substr(0, text.find('=')));
  }
  return options;
}

hub_daemon::hub_daemon(hub_options options) : options_(std::move(options)) {
  if (options_.socket.empty()) options_.socket = home_ / "hub.sock";
  start();
}

hub_daemon::~hub_daemon() {
  if (std::uncaught_exceptions() == exceptions_) return;
  try {
    const auto all = log();
    const auto from = all.size() > log_shown ? all.find('\n', all.size() - log_shown) + 1 : 0;
    std::cerr << "The hub's log ends with:\n" << all.substr(from) << '\n';
  } catch (const std::exception& e) {
    std::cerr << "The hub's log cannot be read: " << e.what() << '\n';
  }
}

void hub_daemon::start() {
  std::vector<std::string> arguments = {"run", "--socket", options_.socket};
  if (!options_.database.empty()) arguments.insert(arguments.end(), {"--database", options_.database});
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  auto job = pgwaked_command(std::move(arguments));
  job.argv.insert(job.argv.begin(), options_.wrapper.begin(), options_.wrapper.end());
  job.env = options_.env;
  job.unset.insert(job.unset.end(), options_.unset.begin(), options_.unset.end());
  job.mask = options_.mask;
  job.max_descriptors = options_.max_descriptors;
  job.descriptors = options_.descriptors;
  process_.emplace(std::move(job));
  const bool ready = options_.until == readiness::none ||
                     (await_accepting() && (options_.until == readiness::accepting || await_health()));
  if (!ready) throw std::runtime_error("pgwaked does not become ready; its log:\n" + log());
}

raw_worker hub_daemon::connect_v1(std::string_view name) const {
  raw_worker worker(options_.socket);
  worker.hello(name);
  return worker;
}

bool hub_daemon::await_accepting(milliseconds patience) {
  return eventually(patience, [&] { return !running() || can_connect(options_.socket); }) && running();
}

bool hub_daemon::await_health(bool healthy, milliseconds patience) {
  try {
    raw_worker probe(options_.socket);
    probe.hello("readiness");
    probe.await_health(healthy, patience);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

std::optional<int> hub_daemon::stop(milliseconds patience) {
  process_->signal(SIGTERM);
  return process_->wait(patience);
}

std::string hub_daemon::log() const {
  process_->wait_for_sleep("log", 2s);
  return process_->err();
}

bool hub_daemon::logs(std::string_view text, milliseconds patience) {
  return process_->wait_for_err(text, patience);
}

void hub_daemon::kill() {
  process_->kill();
  process_->wait(10s);
}

}  // namespace pgwake::test
