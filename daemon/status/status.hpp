#pragma once

#include "daemon/settings/command_line.hpp"

namespace pgwaked {

struct status_options {
  command_values given;  // socket, config
  bool json = false;
  bool watch = false;
};

// `pgwaked status`: asks the hub and prints; with `watch` until the user quits.
int status_command(const status_options& options);

}  // namespace pgwaked
