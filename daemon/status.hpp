#pragma once

#include "daemon/command_line.hpp"

namespace pgwaked {

struct status_options {
  command_values given;  // socket, config
  bool json = false;
  bool watch = false;
};

// Exit codes of `pgwaked status`.
inline constexpr int status_healthy = 0;
inline constexpr int status_degraded = 1;  // a hub runs, and does not serve as it should
inline constexpr int status_wrong_usage = 2;
inline constexpr int status_not_running = 3;  // or not to be reached by this user

// `pgwaked status`: asks the hub and prints; with `watch` until the user quits.
int status_command(const status_options& options);

}  // namespace pgwaked
