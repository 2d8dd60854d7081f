#pragma once

#include <string>
#include <vector>

namespace pgwake {

inline constexpr const char* hubs_directory = "/run/pgwake";

// The sockets of a host's hubs, DIRECTORY/NAME/pgwake.sock, as pgwaked@NAME.service makes them.
// Looks at files.
std::vector<std::string> sockets_of_hubs(const std::string& directory = hubs_directory);

// Where the hub is if nobody named a socket: at that of the instance `main`; where it has none, at that of
// the only hub of the host.
std::string socket_when_unnamed(const std::string& directory = hubs_directory);

}  // namespace pgwake
