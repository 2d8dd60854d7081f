#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pgwake::test {

struct process_options {
  std::vector<std::string> argv;                           ///< argv[0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> env{};  ///< added to this process's own, or replacing it
  std::vector<std::string> unset{};                        ///< names removed from the environment
  std::string account{};  ///< run as this user (root only), with its group alone
  std::string directory{};
  std::optional<unsigned> mask{};                  ///< umask
  std::optional<unsigned> max_descriptors{};       ///< RLIMIT_NOFILE
  std::vector<std::pair<int, int>> descriptors{};  ///< passed on: ours -> the child's number (3 and up)
  std::string input{};                             ///< its standard input
  int death_signal = SIGKILL;                      ///< sent to it when the thread that started it ends
};

/// A child process whose output is kept in memory and readable while it runs. Killed (its whole process
/// group) at destruction. One thread at a time.
class process {
 public:
  explicit process(process_options options);
  process(process&& other) noexcept;
  process& operator=(process&&) = delete;
  ~process();

  pid_t pid() const { return pid_; }
  bool running();
  /// Its exit code, or 128 + the signal that ended it; nothing if it still runs after `patience`.
  std::optional<int> wait(std::chrono::milliseconds patience);
  /// To it alone. Nothing happens once it has been seen to end.
  void signal(int number);
  void kill() { signal(SIGKILL); }

  std::string out() const { return read_all(out_); }
  std::string err() const { return read_all(err_); }
  /// Whether standard output (error) holds `text`, now or within `patience`; false at once if it ends
  /// without.
  bool wait_for_out(std::string_view text, std::chrono::milliseconds patience);
  bool wait_for_err(std::string_view text, std::chrono::milliseconds patience);

  std::chrono::milliseconds cpu_time() const;  ///< user and system, to 10 ms
  long rss_kib() const;                        ///< resident memory now
  int descriptor_count() const;
  int thread_count() const;
  /// Until its thread of this name has nothing to do, or there is none.
  void wait_for_sleep(std::string_view thread, std::chrono::milliseconds patience) const;

 private:
  static std::string read_all(int fd);
  bool wait_for(int fd, std::string_view text, std::chrono::milliseconds patience);
  long status_field(std::string_view name) const;

  pid_t pid_ = -1;
  int out_ = -1;  // anonymous files: nothing to read along, nothing to fill up, nothing to clean
  int err_ = -1;
  std::optional<int> exit_;
};

struct run_result {
  int exit_code;
  std::string out;
  std::string err;
};
/// Runs a command to its end. Throws when it takes longer than `patience`.
run_result run(process_options options, std::chrono::milliseconds patience = std::chrono::seconds(20));
/// The same, and throws with its output when it fails.
std::string run_ok(process_options options, std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace pgwake::test
