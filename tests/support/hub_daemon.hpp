#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/raw_worker.hpp"

namespace pgwake::test {

/// The program under test, where every user may run it: $PGWAKED, else the one this build made.
std::string pgwaked_path();
/// `pgwaked ARGUMENTS...`, with no settings from this process's environment.
process_options pgwaked_command(std::vector<std::string> arguments);

enum class readiness { none, accepting, healthy };

struct hub_options {
  std::string database{};                ///< --database; none when empty
  std::vector<std::string> arguments{};  ///< further ones
  std::vector<std::pair<std::string, std::string>> env{};
  std::vector<std::string> unset{};
  readiness until = readiness::healthy;  ///< the constructor waits for this, or throws with the log
  std::string socket{};                  ///< default: one in a directory of its own
  std::vector<std::string> wrapper{};    ///< a command in front of it that execs its arguments
  std::optional<unsigned> mask{};
  std::optional<unsigned> max_descriptors{};
  std::vector<std::pair<int, int>> descriptors{};  ///< as in process_options
};

/// `pgwaked run`, stopped at destruction. Where an exception ends the test case, the end of its log goes to
/// standard error.
class hub_daemon {
 public:
  explicit hub_daemon(hub_options options);
  ~hub_daemon();
  hub_daemon(const hub_daemon&) = delete;
  hub_daemon& operator=(const hub_daemon&) = delete;

  const std::string& socket() const { return options_.socket; }
  process& child() { return *process_; }
  bool running() { return process_->running(); }
  /// With all that it has said until now: its log is written by a thread.
  std::string log() const;
  /// It says this, by now or soon: what is seen of the hub may be ahead of what it says.
  bool logs(std::string_view text, milliseconds patience = 10s);
  raw_worker connect() const { return raw_worker(options_.socket); }
  /// Connected, welcomed, v1.
  raw_worker connect_v1(std::string_view name = {}) const;

  bool await_accepting(milliseconds patience = 10s);
  /// As a fresh worker is told.
  bool await_health(bool healthy = true, milliseconds patience = 15s);

  /// SIGTERM, and its exit code; nothing if it does not end in time.
  std::optional<int> stop(milliseconds patience = 15s);
  void kill();
  /// After stop or kill: the same command again.
  void start();

 private:
  temp_dir home_;
  hub_options options_;
  int exceptions_ = std::uncaught_exceptions();
  std::optional<process> process_;
};

}  // namespace pgwake::test
