#include "daemon/settings/environment.hpp"

#include <algorithm>
#include <array>

namespace pgwaked {
namespace {

constexpr auto protocols = std::to_array<std::string_view>({"TCP", "UDP", "SCTP"});

// `5432_TCP`, `5432_TCP_ADDR`
bool is_port_and_protocol(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || text.substr(digits, 1) != "_") return false;
  text.remove_prefix(digits + 1);
  const std::string_view protocol = text.substr(0, text.find('_'));
  if (std::find(protocols.begin(), protocols.end(), protocol) == protocols.end()) return false;
  text.remove_prefix(protocol.size());
  return text.empty() || text == "_PROTO" || text == "_PORT" || text == "_ADDR";
}

}  // namespace

bool is_for_bindings(std::string_view variable) { return variable == "PGWAKE_LIBRARY"; }

bool is_service_link(std::string_view variable, std::string_view value) {
  if (!variable.starts_with("PGWAKE_")) return false;
  if (variable.ends_with("_SERVICE_HOST") || variable.ends_with("_SERVICE_PORT") ||
      variable.find("_SERVICE_PORT_") != variable.npos)
    return true;
  if (variable.ends_with("_PORT") &&
      (value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://")))
    return true;
  constexpr std::string_view port = "_PORT_";
  for (std::size_t at = variable.find(port); at != variable.npos; at = variable.find(port, at + 1))
    if (is_port_and_protocol(variable.substr(at + port.size()))) return true;
  return false;
}

}  // namespace pgwaked
