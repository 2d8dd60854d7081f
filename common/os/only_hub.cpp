#include "common/os/only_hub.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace pgwake {

std::vector<std::string> sockets_of_hubs(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const auto path = it->path() / "pgwake.sock";
    std::error_code ignored;
    if (std::filesystem::is_socket(path, ignored)) out.push_back(path.string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string socket_when_unnamed(const std::string& directory) {
  std::string usual = directory + "/main/pgwake.sock";
  std::error_code ignored;
  if (std::filesystem::exists(usual, ignored)) return usual;
  auto all = sockets_of_hubs(directory);
  return all.size() == 1 ? std::move(all.front()) : usual;
}

}  // namespace pgwake
