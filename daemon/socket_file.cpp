#include "daemon/socket_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace pgwaked {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

[[noreturn]] void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    fail("socket path " + path + " has " + std::to_string(path.size()) +
         " bytes; a Unix socket takes at most " + std::to_string(sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Somebody accepts connections there, whoever it is.
bool answers(const sockaddr_un& address) {
  const unique_fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return false;
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno == EAGAIN;
}

std::string lock_of(const std::string& path) { return path + ".lock"; }

}  // namespace

std::optional<pid_t> lock_holder(const std::string& path) {
  struct stat s {};
  if (stat(lock_of(path).c_str(), &s) != 0) return std::nullopt;
  std::array<char, 64> where{};
  std::snprintf(where.data(), where.size(), "%02x:%02x:%llu", major(s.st_dev), minor(s.st_dev),
                static_cast<unsigned long long>(s.st_ino));
  // proc(5): `1: FLOCK  ADVISORY  WRITE 708 00:13:11 0 EOF`; who only waits for it has `->` behind the
  // number.
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, manner, access, file;
    pid_t pid = 0;
    if (words >> number >> kind >> manner >> access >> pid >> file && kind == "FLOCK" && file == where.data())
      return pid;
  }
  return std::nullopt;
}

unique_fd& unique_fd::operator=(unique_fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int unique_fd::release() { return std::exchange(fd_, -1); }

void unique_fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void socket_file::lock() {
  address_of(settings_.path);  // too long: an error before anything is created
  const auto path = lock_of(settings_.path);
  lock_ = unique_fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_)
    fail_errno("cannot open the lock file " + path +
               " (the directory must exist and be writable for the hub)");
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) {
    // For people only; whether it worked does not matter.
    const auto pid = std::to_string(getpid()) + "\n";
    if (ftruncate(lock_.get(), 0) == 0) static_cast<void>(!pwrite(lock_.get(), pid.data(), pid.size(), 0));
    return;
  }
  if (errno != EWOULDBLOCK) fail_errno("cannot lock " + path);
  char buffer[32] = {};
  const auto n = pread(lock_.get(), buffer, sizeof buffer - 1, 0);
  std::string who(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!who.empty() && who.back() == '\n') who.pop_back();
  fail("another hub serves " + settings_.path + (who.empty() ? "" : " (pid " + who + ")") +
       "; stop it, or give this one another " + settings_.option);
}

unique_fd socket_file::bind() {
  const auto address = address_of(settings_.path);
  const auto* path = settings_.path.c_str();
  struct stat s {};
  if (lstat(path, &s) == 0) {
    if (!S_ISSOCK(s.st_mode))
      fail(settings_.path + " exists and is no socket; it was left alone: remove it, or give another " +
           settings_.option);
    if (answers(address)) fail("another server answers on " + settings_.path + "; it was left alone");
    if (unlink(path) != 0) fail_errno("cannot remove the stale socket " + settings_.path);
  }
  unique_fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_errno("cannot make a socket");
  // The file has its final mode from its first instant; with another group it is the owner's alone until
  // then.
  const auto first_mode = settings_.group ? settings_.mode & 0700U : settings_.mode;
  const auto before = umask(0777U & ~first_mode);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(before);
  errno = error;
  if (bound != 0) fail_errno("cannot bind " + settings_.path);
  if (lstat(path, &s) != 0) fail_errno("cannot find the socket just bound, " + settings_.path);
  device_ = s.st_dev;
  inode_ = s.st_ino;
  bound_ = true;
  if (settings_.group) {
    if (lchown(path, static_cast<uid_t>(-1), *settings_.group) != 0)
      fail_errno("cannot give " + settings_.path + " to socket_group " + std::to_string(*settings_.group) +
                 " (the hub's user must be a member)");
    if (chmod(path, settings_.mode) != 0) fail_errno("cannot set the mode of " + settings_.path);
  }
  if (listen(fd.get(), SOMAXCONN) != 0) fail_errno("cannot listen on " + settings_.path);
  return fd;
}

socket_file::state socket_file::look() const {
  struct stat s {};
  if (lstat(settings_.path.c_str(), &s) != 0) return errno == ENOENT ? state::gone : state::foreign;
  return s.st_dev == device_ && s.st_ino == inode_ ? state::ours : state::foreign;
}

void socket_file::remove() {
  if (bound_ && look() == state::ours) unlink(settings_.path.c_str());
  bound_ = false;
}

}  // namespace pgwaked
