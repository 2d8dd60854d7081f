#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/eventually.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::test {

/// A worker that speaks frames over the hub's Unix socket by hand. What it expects and does not get in time
/// is a std::runtime_error that says what came instead. One thread.
class raw_worker {
 public:
  explicit raw_worker(const std::string& socket_path);
  raw_worker(raw_worker&& other) noexcept;
  raw_worker& operator=(raw_worker&& other) noexcept;
  ~raw_worker();

  void send_raw(std::string_view bytes);
  void send_json(std::string_view text) { send_raw(frame_of(text)); }
  /// Sends `hello` (v1) and takes the `welcome`.
  frame hello(std::string_view name = {}, std::string_view database = {});
  void sub(std::string_view q);
  void unsub(std::string_view q);
  void ping(std::int64_t id);

  /// The next frame of any kind; nothing if none comes in time or the hub has closed.
  std::optional<frame> next(milliseconds patience = 3s);
  /// The next frame but `status` (which only expect("status") takes) must be of this kind.
  frame expect(std::string_view t, milliseconds patience = 3s);
  frame expect(std::string_view t, std::string_view q, milliseconds patience = 3s);
  /// A wake on `q` with this payload (nothing: durable).
  frame expect_wake(std::string_view q, const std::optional<std::string>& payload = std::nullopt,
                    milliseconds patience = 3s);
  /// sub and its ack, which must be the next frame.
  void subscribe(std::string_view q, milliseconds patience = 3s);
  /// Takes frames until a status says `healthy`; others on the way are lost.
  void await_health(bool healthy = true, milliseconds patience = 10s);

  /// All that comes within `duration`, but status frames.
  std::vector<frame> drain(milliseconds duration);
  /// A ping, and every frame but status before its pong: what the hub had for us (v1 only).
  std::vector<frame> until_pong(milliseconds patience = 3s);
  /// Whether the hub closes within `patience`; frames on the way are lost.
  bool closed(milliseconds patience = 3s);

  void close();
  void shut_writing();
  int fd() const { return fd_; }
  bool at_end() const { return ended_; }

 private:
  bool receive(clock::time_point deadline);

  int fd_ = -1;
  bool ended_ = false;
  frame_reader in_;
  std::int64_t last_ping_ = 1'000'000;
};

}  // namespace pgwake::test
