#pragma once

#include <string>

#include "daemon/settings/command_line.hpp"

namespace pgwaked {

struct control_options {
  command_values given;  // socket, config
  std::string what;      // evict, log-level, reconnect, drain
  std::string arg;
};

// `pgwaked control ...`: asks the hub to do something, and prints its answer. 0 done, 1 refused or failed, 2
// wrong usage, 3 not running.
int control_command(const control_options& options);

}  // namespace pgwaked
