#include "daemon/io/socket_file.hpp"

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

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Whoever may write to the folder may have put something else there: a link to a file that is to be ruined.
void refuse_other_file(const std::string& path, const struct stat& s) {
  const auto alone = ": it was left alone; remove it, or give the hub a folder of its own";
  if (!S_ISREG(s.st_mode)) fail("the lock file " + path + " is not a plain file" + alone);
  if (s.st_nlink > 1) fail("the lock file " + path + " is a hard link to another file" + alone);
  if (s.st_uid != geteuid() && s.st_uid != 0 && geteuid() != 0)
    fail("the lock file " + path + " belongs to another user (uid " + std::to_string(s.st_uid) + ")" + alone);
}

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

void socket_file::lock() {
  address_of(settings_.path);  // too long: an error before anything is created
  if (take_lock()) return;
  const auto holder = lock_holder(settings_.path);
  fail("another hub serves " + settings_.path + (holder ? " (pid " + std::to_string(*holder) + ")" : "") +
       "; stop it, or give this one another " + settings_.option);
}

// False: another process has it.
bool socket_file::take_lock() {
  const auto path = lock_of(settings_.path);
  while (true) {
    unique_fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!fd && errno == ELOOP)
      fail("the lock file " + path + " is a symbolic link: it was left alone; remove it");
    if (!fd)
      fail_errno("cannot open the lock file " + path +
                 " (the directory must exist and be writable for the hub)");
    struct stat opened {};
    struct stat there {};
    if (fstat(fd.get(), &opened) != 0) fail_errno("cannot look at the lock file " + path);
    refuse_other_file(path, opened);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      fail_errno("cannot lock " + path);
    }
    // Removed or replaced meanwhile: that lock would keep nobody away.
    if (lstat(path.c_str(), &there) != 0 || !same_file(opened, there)) continue;
    lock_ = std::move(fd);
    // For people only; whether it worked does not matter.
    const auto pid = std::to_string(getpid()) + "\n";
    if (opened.st_uid == geteuid() && ftruncate(lock_.get(), 0) == 0)
      static_cast<void>(!pwrite(lock_.get(), pid.data(), pid.size(), 0));
    return true;
  }
}

socket_file::hold socket_file::keep_lock() {
  struct stat held {};
  struct stat there {};
  if (fstat(lock_.get(), &held) == 0 && lstat(lock_of(settings_.path).c_str(), &there) == 0 &&
      same_file(held, there))
    return hold::held;
  try {
    return take_lock() ? hold::held : hold::taken;
  } catch (const std::runtime_error&) {
    const auto holder = lock_holder(settings_.path);
    return holder && *holder != getpid() ? hold::taken : hold::unlockable;
  }
}

void socket_file::mend_folder() const {
  const auto folder = folder_of(settings_.path);
  if (folder_mode_ == 0 || mkdir(folder.c_str(), folder_mode_ & 0777U) != 0) return;
  if (lchown(folder.c_str(), static_cast<uid_t>(-1), folder_group_) == 0)
    static_cast<void>(!chmod(folder.c_str(), folder_mode_ & 07777U));
}

// What the path leads to, and whose the folder is.
void socket_file::know() {
  struct stat s {};
  if (lstat(settings_.path.c_str(), &s) != 0)
    fail_errno("cannot find the socket just bound, " + settings_.path);
  device_ = s.st_dev;
  inode_ = s.st_ino;
  if (stat(folder_of(settings_.path).c_str(), &s) == 0 && s.st_uid == geteuid()) {
    folder_mode_ = s.st_mode;
    folder_group_ = s.st_gid;
  }
}

void socket_file::adopt() {
  try {
    know();
  } catch (const std::runtime_error&) {
    // It is gone already: look() says so.
  }
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
  // The file has its final mode from its first instant; with another group it is the owner's
  // alone until then.
  const auto first_mode = settings_.group ? settings_.mode & 0700U : settings_.mode;
  const auto before = umask(0777U & ~first_mode);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(before);
  errno = error;
  if (bound != 0) fail_errno("cannot bind " + settings_.path);
  know();
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

bool socket_file::folder_is_gone() const {
  struct stat s {};
  return lstat(folder_of(settings_.path).c_str(), &s) != 0 && errno == ENOENT;
}

void socket_file::remove() {
  if (bound_ && look() == state::ours) unlink(settings_.path.c_str());
  bound_ = false;
}

}  // namespace pgwaked
