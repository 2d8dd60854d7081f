#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/io/socket_file.hpp"

namespace pgwaked {

// The service manager's side of the daemon: says how it goes (sd_notify(3)) and takes the sockets that it
// may have passed (sd_listen_fds(3)). The protocol by hand, without libsystemd; without a service manager every
// call does nothing. Never blocks: what cannot be said now is said at the next call. The loop's thread only.
class service_manager {
 public:
  using variables = std::function<const char*(const char* name)>;

  // Reads NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, LISTEN_PID, LISTEN_FDS and RUNTIME_DIRECTORY.
  explicit service_manager(const variables& environment);
  service_manager();  // from the process's own environment

  bool present() const { return !address_.empty(); }
  // Whether it makes the folder of this file at each start (RuntimeDirectory=).
  bool makes_folder_of(std::string_view path) const;

  // Sockets passed by socket activation, told apart by the paths that they are bound to, whatever their order
  // and names. All become close-on-exec. Throws std::runtime_error where one is no listening Unix stream
  // socket; `needed` is the path that the operator should have passed. Call it first, once.
  void look_at_sockets(const std::string& needed);
  // The one at `path`; an empty one: none was passed.
  unique_fd take_socket(const std::string& path);
  // Those that nobody has taken.
  struct passed_socket {
    unique_fd fd;
    std::string path;  // empty: unnamed or abstract
  };
  std::vector<passed_socket> other_sockets() { return std::move(sockets_); }

  void ready();
  void reloading();  // ready() ends it
  // `grace`: the stop may take this long, whatever the unit's stop timeout says.
  void stopping(std::chrono::milliseconds grace);
  // For `systemctl status`, one line; said only when it has changed.
  void status(std::string_view text);
  // How often beat() must be called so that the watchdog stays quiet; nullopt: there is none.
  std::optional<std::chrono::milliseconds> beat_period() const { return beat_period_; }
  void beat();

 private:
  void say(std::string message);
  bool flush();

  std::string address_;  // empty: nobody listens
  unique_fd socket_;
  std::deque<std::string> unsaid_;
  std::string status_;
  std::string runtime_folders_;  // separated by colons
  std::optional<std::chrono::milliseconds> beat_period_;
  std::vector<passed_socket> sockets_;
  int passed_ = 0;            // descriptors, from 3 on
  std::string passed_fault_;  // LISTEN_FDS makes no sense
};

}  // namespace pgwaked
