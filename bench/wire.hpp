#pragma once

#include <string>
#include <string_view>

namespace pgwake::bench {

// Counts messages in one connection's bytes, whatever pieces they come in, without looking at payloads.
class wire {
 public:
  virtual ~wire() = default;

  // How many messages are complete with these bytes.
  std::size_t take(std::string_view bytes);

 protected:
  struct head {
    std::size_t size = 0;  // of the head; 0: incomplete
    std::size_t rest = 0;  // bytes after it
    bool counts = false;   // a message, and no answer or heartbeat
  };
  virtual head look(std::string_view bytes) = 0;

 private:
  std::size_t skip_ = 0;  // bytes left of the message being passed over
  bool counting_ = false;
  std::string partial_;
};

// pgwake, v1: 4 bytes of length, JSON; `wake` frames count.
class pgwake_wire final : public wire {
  head look(std::string_view bytes) override;
};

// Redis, RESP2: pushes of a subscribed connection.
class redis_wire final : public wire {
  head look(std::string_view bytes) override;
};

// NATS: MSG counts; a PING is answered on `fd`.
class nats_wire final : public wire {
 public:
  explicit nats_wire(int fd) : fd_(fd) {}

 private:
  head look(std::string_view bytes) override;
  int fd_;
};

}  // namespace pgwake::bench
