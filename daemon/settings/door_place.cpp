#include "daemon/settings/door_place.hpp"

namespace pgwaked {

std::string door_folder(const settings& values) {
  if (!values.front_door_dir.empty()) return values.front_door_dir;
  const auto slash = values.socket.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : values.socket.substr(0, slash);
}

std::string door_socket(const settings& values) {
  const auto folder = door_folder(values);
  return (folder == "/" ? "" : folder) + "/.s.PGSQL." + std::to_string(values.front_door_port);
}

}  // namespace pgwaked
