#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/eventually.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::test {

/// Many workers in one thread, for tests of scale: frames are counted per worker.
class worker_pool {
 public:
  struct member {
    int fd = -1;
    frame_reader in{};
    std::size_t acks = 0;
    std::size_t nacks = 0;
    std::size_t wakes = 0;  ///< gaps included
    std::size_t gaps = 0;
    std::size_t pongs = 0;
    bool healthy = false;  ///< as the last status said
    bool ended = false;    ///< closed by the hub
  };

  /// Connects `count` workers; with `hello` they speak v1.
  worker_pool(const std::string& socket_path, std::size_t count, bool hello = true);
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;
  ~worker_pool();

  std::size_t size() const { return members_.size(); }
  const member& operator[](std::size_t index) const { return members_[index]; }
  void send(std::size_t index, std::string_view json);
  void sub(std::size_t index, std::string_view q);
  void close(std::size_t index);
  /// Forgets all counts.
  void reset_counts();

  /// Called for every frame, after it was counted.
  std::function<void(std::size_t index, const frame& received)> on_frame{};

  /// Receives until `done` (asked after every round) or `patience` has passed. True if done.
  bool run_until(const std::function<bool()>& done, milliseconds patience);
  bool every(const std::function<bool(const member&)>& fulfils) const;
  std::size_t sum(std::size_t member::*count) const;

 private:
  void receive(std::size_t index);
  void count(member& one, const frame& received);

  std::vector<member> members_;
  int epoll_ = -1;
};

}  // namespace pgwake::test
