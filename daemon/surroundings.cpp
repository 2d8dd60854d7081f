#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/options.hpp"

extern "C" char** environ;

namespace pgwaked {
namespace {

// A settings file is a few kilobytes; more is a mistake (a device, a log) and must not fill the memory.
constexpr std::size_t max_file_bytes = 1 << 20;

boost::system::result<std::string, value_error> read_whole_file(const std::string& path) {
  const auto reason = [] {
    std::string why = std::strerror(errno);
    if (errno == EACCES) {
      const passwd* self = ::getpwuid(::geteuid());
      why += "; it must be readable for the user " +
             (self != nullptr ? std::string(self->pw_name) : std::to_string(::geteuid()));
    }
    return value_error{why};
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return reason();
  std::string content;
  char block[16'384];
  while (true) {
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const value_error why = reason();
      ::close(descriptor);
      return why;
    }
    if (got == 0) break;
    content.append(block, static_cast<std::size_t>(got));
    if (content.size() > max_file_bytes) {
      ::close(descriptor);
      return value_error{"it is larger than 1 MiB"};
    }
  }
  ::close(descriptor);
  return {boost::system::in_place_value, std::move(content)};  // not the error, which is a string as well
}

}  // namespace

surroundings real_surroundings() {
  surroundings out;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view both = *each;
    const std::size_t equals = both.find('=');
    if (equals != both.npos) out.environment.emplace_back(both.substr(0, equals), both.substr(equals + 1));
  }
  out.read_file = read_whole_file;
  // Called while starting up and on reload, by the loop's thread alone: the plain calls do.
  out.names.user_id = [](const std::string& name) -> std::optional<std::uint32_t> {
    const passwd* found = ::getpwnam(name.c_str());
    if (found == nullptr) return std::nullopt;
    return found->pw_uid;
  };
  out.names.group_id = [](const std::string& name) -> std::optional<std::uint32_t> {
    const group* found = ::getgrnam(name.c_str());
    if (found == nullptr) return std::nullopt;
    return found->gr_gid;
  };
  return out;
}

}  // namespace pgwaked
