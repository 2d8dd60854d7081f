#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/os/unique_fd.hpp"

namespace pgwaked {

using pgwake::unique_fd;

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

  // Takes the lock for life. Throws std::runtime_error with words for the operator. What is at the lock's
  // path is written to only if it is a file of this user with no other name, and the lock on it is held.
  void lock();
  // Now and then: is the file at the lock's path still the one that is locked? If it was removed or replaced
  // a new one is locked. `taken`: another process has locked it, so that another hub serves the path;
  // `unlockable`: there can be no lock (the folder is gone).
  enum class hold { held, taken, unlockable };
  hold keep_lock();
  // Binds and listens; replaces a stale socket, never anything else. Throws std::runtime_error. Not
  // thread-safe: the process's umask is changed for the moment of the bind.
  unique_fd bind();
  // The socket at the path was made by the service manager.
  void adopt();
  // The path does not lead to our socket file any more: `gone`, or to something else: `foreign`.
  enum class state { ours, gone, foreign };
  // Makes the folder again, as it was, if it is gone and was this user's own. Does not throw.
  void mend_folder() const;
  state look() const;
  bool folder_is_gone() const;
  // Removes the socket file if it is still our own.
  void remove();

  const std::string& path() const { return settings_.path; }

 private:
  bool take_lock();
  void know();

  settings settings_;
  unique_fd lock_;
  bool bound_ = false;
  mode_t folder_mode_ = 0;  // 0: the folder is not this user's
  gid_t folder_group_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace pgwaked
