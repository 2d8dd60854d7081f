#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/process.hpp"
#include "support/raw_worker.hpp"

// The host that these tests run on is theirs alone (tests/support/systemd-host): they install packages, write
// /etc and start units as an administrator would.
namespace pgwake::test {

/// A command as root, looked up in PATH.
run_result command(std::vector<std::string> argv);
/// The same; throws with its output unless it exits 0.
std::string command_ok(std::vector<std::string> argv);

/// A package's file of tests/systemd/build-packages; `which` is `first` or `second` (a later version).
std::string package_file(const std::string& name, const std::string& which = "first");
/// Installs pgwaked unless it is.
void install_package();

/// A property as systemctl shows it.
std::string property(const std::string& unit, const std::string& name);
int main_pid(const std::string& unit);
/// What the journal holds of a unit, newest last; `options` as journalctl's.
std::string journal(const std::string& unit, std::vector<std::string> options = {});

/// An instance of pgwaked@.service with settings of its own; stopped and forgotten at destruction.
class instance {
 public:
  /// `settings`: lines of /etc/pgwake/NAME.toml. The package is installed if need be.
  instance(std::string name, const std::string& settings);
  instance(const instance&) = delete;
  instance& operator=(const instance&) = delete;
  ~instance();

  std::string unit() const { return "pgwaked@" + name_ + ".service"; }
  std::string socket_unit() const { return "pgwaked@" + name_ + ".socket"; }
  std::string socket() const { return "/run/pgwake/" + name_ + "/pgwake.sock"; }
  std::string etc(const std::string& suffix) const { return "/etc/pgwake/" + name_ + suffix; }

  void settings(const std::string& text) const;
  /// Lines for the unit, as by `systemctl edit`.
  void drop_in(const std::string& unit, const std::string& text) const;

  void start() const;  ///< throws with the journal when it does not start
  run_result try_start() const { return command({"systemctl", "start", unit()}); }
  void stop() const;
  std::string status_text() const { return property(unit(), "StatusText"); }
  int pid() const { return main_pid(unit()); }  ///< 0 while none runs
  /// To its main process. Throws if none runs: 0 would be everybody of this process's group, out of this host too.
  void signal(int number) const;
  /// Another main process than `before` runs, by now or soon.
  bool runs_anew(int before, milliseconds patience = 15s) const;
  /// Within a few seconds a worker is told that the hub is healthy.
  bool healthy() const;
  /// Its journal has these words, by now or soon: what is seen of the hub may be ahead of what it says.
  bool logs(const std::string& words) const;
  /// A v1 worker.
  raw_worker connect() const;

 private:
  std::string name_;
};

}  // namespace pgwake::test
