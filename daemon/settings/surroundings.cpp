#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "daemon/settings/options.hpp"

extern "C" char** environ;

namespace pgwaked {
namespace {

// A settings file is a few kilobytes; more is a mistake (a device, a log) and must not fill the memory.
constexpr std::size_t max_file_bytes = 1 << 20;

// Of a FIFO that nobody writes, or a terminal at which nobody types.
constexpr std::chrono::seconds patience{4};  // less than an attempt to connect has for it

// Calls one of the re-entrant look-ups with a buffer that suffices.
template <typename Entry, typename Lookup>
std::optional<Entry> looked_up(std::vector<char>& buffer, const Lookup& lookup) {
  constexpr std::size_t most = 1 << 20;  // a group of many thousand members
  Entry entry{};
  Entry* found = nullptr;
  for (buffer.resize(4'096); buffer.size() <= most; buffer.resize(buffer.size() * 4)) {
    const int error = lookup(&entry, buffer.data(), buffer.size(), &found);
    if (error == EINTR) continue;
    if (error != ERANGE) break;
  }
  return found != nullptr ? std::optional(entry) : std::nullopt;
}

std::optional<std::uint32_t> user_id(const std::string& name) {
  std::vector<char> buffer;
  const auto entry = looked_up<passwd>(buffer, [&](auto* into, char* at, std::size_t size, auto** found) {
    return ::getpwnam_r(name.c_str(), into, at, size, found);
  });
  return entry ? std::optional<std::uint32_t>(entry->pw_uid) : std::nullopt;
}

std::optional<std::uint32_t> group_id(const std::string& name) {
  std::vector<char> buffer;
  const auto entry = looked_up<group>(buffer, [&](auto* into, char* at, std::size_t size, auto** found) {
    return ::getgrnam_r(name.c_str(), into, at, size, found);
  });
  return entry ? std::optional<std::uint32_t>(entry->gr_gid) : std::nullopt;
}

std::string name_of_this_user() {
  std::vector<char> buffer;
  const auto entry = looked_up<passwd>(buffer, [&](auto* into, char* at, std::size_t size, auto** found) {
    return ::getpwuid_r(::geteuid(), into, at, size, found);
  });
  return entry ? entry->pw_name : std::to_string(::geteuid());
}

boost::system::result<std::string, value_error> read_whole_file(const std::string& path) {
  const auto reason = [] {
    std::string why = std::strerror(errno);
    if (errno == EACCES) {
      why += "; it must be readable for the user " + name_of_this_user();
    }
    return value_error{why};
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor < 0) return reason();
  const auto until = std::chrono::steady_clock::now() + patience;
  std::string content;
  char block[16'384];
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd readable{descriptor, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      ::close(descriptor);
      return value_error{"nothing could be read from it within 4 s; is it a FIFO that nobody writes?"};
    }
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
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
  out.mode_of = [](const std::string& path) -> std::optional<unsigned> {
    struct stat is {};
    if (::stat(path.c_str(), &is) != 0 || !S_ISREG(is.st_mode)) return std::nullopt;
    return is.st_mode & 07777U;
  };
  // On a thread that may wait: not beside another one's use of the C library's shared buffers.
  out.names.user_id = [](const std::string& name) { return user_id(name); };
  out.names.group_id = [](const std::string& name) { return group_id(name); };
  return out;
}

}  // namespace pgwaked
