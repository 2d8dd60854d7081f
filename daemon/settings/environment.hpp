#pragma once

#include <string_view>

namespace pgwaked {

// Whether bindings of the client library look at it, to find the library: in an environment that the hub
// shares with them it is none of the hub's business.
bool is_for_bindings(std::string_view variable);

// Whether Kubernetes makes such a variable for a Service whose name begins with pgwake
// (`PGWAKE_SERVICE_HOST`, `PGWAKE_PORT=tcp://10.0.0.7:5432`, `PGWAKE_HUB_PORT_5432_TCP_ADDR`).
bool is_service_link(std::string_view variable, std::string_view value);

}  // namespace pgwaked
