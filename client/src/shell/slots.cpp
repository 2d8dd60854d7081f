#include "client/src/shell/slots.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace pgwake::client {
namespace {

std::string words(int error) { return std::generic_category().message(error); }

// For this process's user and those whom its owner admits, made if it is not there; none if a stranger could
// lock what is in it.
unique_fd open_directory(const std::string& path, mode_t mode, std::string& trouble) {
  const bool made = ::mkdir(path.c_str(), 0700) == 0;
  unique_fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat is {};
  if (!fd || ::fstat(fd.get(), &is) != 0) {
    trouble = path + ": " + words(errno);
    return {};
  }
  if (is.st_uid != 0 && is.st_uid != ::geteuid()) {
    trouble = path + " belongs to uid " + std::to_string(is.st_uid) + ", which is neither root nor this user";
    return {};
  }
  if (made) ::fchmod(fd.get(), mode);  // whatever the umask
  if (!made && (is.st_mode & S_IWOTH) != 0) {
    trouble = path + ": everybody may write to it, so anybody could take all slots";
    return {};
  }
  return fd;
}

// Another user's file is opened without O_CREAT: in a sticky directory the kernel may refuse that
// (fs.protected_regular). A lock needs no right to write.
unique_fd open_slot(int directory, const std::string& name) {
  for (int round = 0; round < 3; ++round) {
    unique_fd fd(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd || errno != ENOENT) return fd;
    fd.reset(::openat(directory, name.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (fd) {
      ::fchmod(fd.get(), 0644);  // whatever the umask: the other users' workers must be able to open it
      return fd;
    }
    if (errno != EEXIST) return fd;
  }
  return {};
}

// A file of one name, so that nobody elsewhere holds a lock on it, or has something locked through it.
bool plain(const unique_fd& fd) {
  struct stat is {};
  return ::fstat(fd.get(), &is) == 0 && S_ISREG(is.st_mode) && is.st_nlink == 1;
}

slots::outcome lock_one(const unique_fd& directory, std::uint64_t limit, std::uint64_t random,
                        unique_fd& held, int& error) {
  bool in_use = false;
  for (std::uint64_t i = 0; i < limit; ++i) {
    auto fd = open_slot(directory.get(), "slot-" + std::to_string((i + random) % limit));
    if (!fd) {
      error = errno;
    } else if (!plain(fd)) {
      error = EMLINK;
    } else if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      held = std::move(fd);
      return slots::outcome::granted;
    } else {
      in_use = true;
    }
  }
  return in_use ? slots::outcome::in_use : slots::outcome::impossible;
}

}  // namespace

slots::outcome slots::acquire(std::uint64_t limit, std::uint64_t random, std::string& trouble) {
  trouble.clear();
  if (held_) return outcome::granted;
  const auto by_user = directory_ + "-" + std::to_string(::geteuid());
  for (const bool shared : {true, false}) {
    std::string why;
    const auto& path = shared ? directory_ : by_user;
    if (const auto directory = open_directory(path, shared ? 01770 : 0700, why)) {
      int error = 0;
      const auto how = lock_one(directory, limit, random, held_, error);
      if (how == outcome::in_use)
        trouble = "all " + std::to_string(limit) + " own connections of this " + (shared ? "host" : "user") +
                  " are in use (fallback_limit)";
      else if (how == outcome::granted)
        trouble.clear();
      if (how != outcome::impossible) return how;
      why = path + ": " + words(error);
    }
    trouble += (trouble.empty() ? "no slot for an own connection can be locked: " : "; ") + why;
  }
  return outcome::impossible;
}

}  // namespace pgwake::client
