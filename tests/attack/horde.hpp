#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "attack/attack.hpp"

namespace pgwake::attack {

/// Many connections to the hub's socket, in one thread. What the socket does not take at once is kept and
/// sent later, so that frames stay whole; a connection that the hub has closed counts as dead.
class horde {
 public:
  /// Connects as many as the hub admits, up to `count`; with `hello` they speak v1.
  horde(const std::string& socket, std::size_t count, bool hello = true);
  horde(const horde&) = delete;
  horde& operator=(const horde&) = delete;
  ~horde();

  std::size_t size() const { return members_.size(); }
  std::size_t alive() const;
  /// One frame; false: that connection takes no more now, or is dead.
  bool send(std::size_t index, std::string_view json);
  /// Bytes as they are.
  bool send_raw(std::size_t index, std::string_view bytes);
  /// Reads what has come, and throws it away.
  void read(std::size_t index);
  void read_all();
  int fd(std::size_t index) const { return members_[index].fd; }
  /// Closes and connects again.
  void renew(std::size_t index);

 private:
  struct member {
    int fd = -1;
    std::string unsent;
  };
  bool flush(member& m);

  std::string socket_;
  bool hello_;
  std::vector<member> members_;
};

/// `{"t":"sub","q":NAME}`
std::string sub_of(std::string_view name);
std::string unsub_of(std::string_view name);

}  // namespace pgwake::attack
