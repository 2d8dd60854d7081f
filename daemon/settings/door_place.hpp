#pragma once

#include <string>

#include "daemon/settings/settings.hpp"

namespace pgwaked {

// The folder of the front door's socket, which drivers take as their host.
std::string door_folder(const settings& values);
// The socket itself; drivers make its name of host and port.
std::string door_socket(const settings& values);

}  // namespace pgwaked
