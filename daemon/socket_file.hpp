#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace pgwaked {

// A descriptor that closes itself.
class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int fd) : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(other.release()) {}
  unique_fd& operator=(unique_fd&& other) noexcept;
  ~unique_fd() { reset(); }
  int get() const { return fd_; }
  int release();
  void reset();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The process that holds the lock beside the socket `path` at this moment, with or without a socket there.
// nullopt: none, or one that this process cannot see (another PID namespace). Takes no lock, not even for an
// instant: that would get into the way of a hub that starts.
std::optional<pid_t> lock_holder(const std::string& path);

// The hub's place in the file system: the socket file and the lock beside it that says whose it is (K1, K2).
class socket_file {
 public:
  struct settings {
    std::string path;
    unsigned mode = 0660;
    std::optional<gid_t> group;
    std::string option = "--socket";  // where the operator gave the path, for error messages
  };

  explicit socket_file(settings s) : settings_(std::move(s)) {}
  ~socket_file() { remove(); }
  socket_file(const socket_file&) = delete;
  socket_file& operator=(const socket_file&) = delete;

  // Takes the lock for life. Throws std::runtime_error with words for the operator.
  void lock();
  // Binds and listens; replaces a stale socket, never anything else. Throws std::runtime_error. Not
  // thread-safe: the process's umask is changed for the moment of the bind.
  unique_fd bind();
  // The path does not lead to our socket file any more: `gone`, or to something else: `foreign`.
  enum class state { ours, gone, foreign };
  state look() const;
  // Removes the socket file if it is still our own.
  void remove();

  const std::string& path() const { return settings_.path; }

 private:
  settings settings_;
  unique_fd lock_;
  bool bound_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace pgwaked
