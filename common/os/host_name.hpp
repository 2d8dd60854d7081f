#pragma once

#include <string>

namespace pgwake {

// As gethostname(2) tells it, at most 255 bytes; `localhost` where it does not.
std::string host_name();

}  // namespace pgwake
