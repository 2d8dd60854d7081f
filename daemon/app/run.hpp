#pragma once

#include "daemon/settings/command_line.hpp"

namespace pgwaked {

// `pgwaked run`: the daemon in the foreground. Exit code: 0 stopped, 1 could not start, 2 wrong usage. Does
// not return while an abandoned connect attempt still holds a thread: then it ends the process itself.
int run_command(const command_values& given);

// `pgwaked config`: the effective settings and where each came from; with `check` nothing, unless one is
// wrong. 0, or 2.
int config_command(const command_values& given, bool check);

}  // namespace pgwaked
