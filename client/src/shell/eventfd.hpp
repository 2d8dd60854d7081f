#pragma once

#include "common/os/unique_fd.hpp"

namespace pgwake::client {

// An eventfd, close-on-exec. Throws std::system_error.
unique_fd make_eventfd(int flags);
// Makes it readable. Async-signal-safe.
void signal_eventfd(int fd);

}  // namespace pgwake::client
