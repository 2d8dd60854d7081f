#include "client/src/slots.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace pgwake::client {
namespace {

// Another user's file is opened without O_CREAT: in a sticky directory the kernel may refuse that
// (fs.protected_regular). A lock needs no right to write.
descriptor open_slot(const std::string& path) {
  for (int round = 0; round < 3; ++round) {
    descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd || errno != ENOENT) return fd;
    fd.reset(::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (fd) {
      ::fchmod(fd.get(), 0644);  // whatever the umask: the other users' workers must be able to open it
      return fd;
    }
    if (errno != EEXIST) return fd;
  }
  return {};
}

}  // namespace

bool slots::acquire(std::uint64_t random, std::string& trouble) {
  if (held_) return true;
  if (::mkdir(directory_.c_str(), 01777) == 0) ::chmod(directory_.c_str(), 01777);
  int error = 0;
  for (std::uint64_t i = 0; i < limit_; ++i) {
    const auto path = directory_ + "/slot-" + std::to_string((i + random) % limit_);
    auto fd = open_slot(path);
    if (!fd) {
      error = errno;
      continue;
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      held_ = std::move(fd);
      trouble.clear();
      return true;
    }
  }
  trouble = error != 0 ? "no slot for an own connection can be locked in " + directory_ + ": " +
                             std::generic_category().message(error)
                       : "all " + std::to_string(limit_) +
                             " own connections of this host are in use (fallback_limit)";
  return false;
}

}  // namespace pgwake::client
