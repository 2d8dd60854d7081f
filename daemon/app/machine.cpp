#include "daemon/app/machine.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "common/os/random_word.hpp"

namespace pgwaked {

std::string random_uuid() {
  auto hex = pgwake::random_hex();
  hex[12] = '4';
  hex[16] = "89ab"[pgwake::random_word() & 3U];
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

std::uint64_t descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const auto before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  return limit.rlim_cur;
}

std::optional<std::uint64_t> memory_limit() {
  const std::filesystem::path top = "/sys/fs/cgroup";
  std::ifstream groups("/proc/self/cgroup");
  std::filesystem::path group;
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) group = top / line.substr(4);
  std::optional<std::uint64_t> least;
  for (; group.string().starts_with(top.string()); group = group.parent_path())
    for (const auto* name : {"memory.high", "memory.max"}) {
      std::uint64_t limit = 0;
      if (std::ifstream file(group / name); file >> limit) least = std::min(least.value_or(limit), limit);
    }
  return least;
}

}  // namespace pgwaked
