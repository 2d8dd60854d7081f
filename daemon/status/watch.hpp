#pragma once

#include <string>

namespace pgwaked {

// `pgwaked status --watch` on a terminal: a live view until q or Ctrl-C. The exit code is that of the state
// seen last. The terminal is given back as it was, also after SIGTERM and SIGHUP.
int watch_status(const std::string& socket);

}  // namespace pgwaked
