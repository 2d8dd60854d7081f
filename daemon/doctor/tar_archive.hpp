#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pgwaked {

struct archived_file {
  std::string name;  // a path of at most 100 bytes
  std::string content;
};

// The files as an uncompressed tar archive in the format ustar (POSIX.1-1988, `man 5 tar`): root's, mode
// 0600, changed at `mtime` (seconds since 1970). Pure.
std::string tar_archive(const std::vector<archived_file>& files, std::uint64_t mtime);

}  // namespace pgwaked
