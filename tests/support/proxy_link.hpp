#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "support/eventually.hpp"

namespace pgwake::test {

/// What happens to a simple query that contains `text`.
struct query_rule {
  enum class action { fail, swallow, hold_query, hold_answer, answer };
  std::string text;
  action what;
  std::string sqlstate{};
  milliseconds duration{0};
  int times = -1;       ///< then the rule is spent; negative: for ever
  std::string bytes{};  ///< of `answer`
};

/// What the proxy does at present; shared by all its links.
struct proxy_faults {
  bool to_server_lost = false;  ///< black hole: nothing is read or forwarded, no FIN either
  bool to_client_lost = false;
  milliseconds delay{0};       ///< each direction
  bool deaf = false;           ///< notifications are taken out of what the server sends
  std::string login_answer{};  ///< instead of the server's, to a startup packet; then the link is closed
  std::vector<query_rule> rules;
  std::vector<std::string> queries;  ///< every simple query seen, cut to 1 MiB
};

/// One relayed connection. Not thread-safe: the proxy's thread has it, under the proxy's lock.
class proxy_link {
 public:
  /// Owns both descriptors. `server` may be -1: then the client is left hanging. Links that do not speak
  /// PostgreSQL's protocol are `opaque`. `stall_after`: bytes to the client after which it hears nothing
  /// more.
  proxy_link(int client, int server, bool opaque, std::size_t stall_after, std::size_t cut_after);
  proxy_link(const proxy_link&) = delete;
  proxy_link& operator=(const proxy_link&) = delete;
  ~proxy_link();

  struct interest {
    int fd;  ///< -1 where nothing is wanted, so that a hang-up does not spin
    short events;
  };
  interest client_interest(const proxy_faults& faults, clock::time_point now) const;
  interest server_interest(const proxy_faults& faults, clock::time_point now) const;
  /// The earliest moment at which something held back is due; max() if there is none.
  clock::time_point next_due() const;

  void on_client(short events, proxy_faults& faults);
  void on_server(short events, proxy_faults& faults);
  bool finished() const { return finished_; }
  /// RST instead of FIN, both sides.
  void reset();
  std::size_t bytes_to_client() const { return sent_to_client_; }
  /// As if the server had said it.
  void say(const std::string& bytes) { push(to_client_, bytes, clock::now()); }

 private:
  struct chunk {
    std::string bytes;
    clock::time_point due;
  };
  struct lane {
    std::deque<chunk> queue{};
    std::size_t offset = 0;  // of queue.front(), already written
    std::size_t buffered = 0;
    bool ended = false;  // FIN read
    bool shut = false;   // and passed on
    clock::time_point held_until{};
    bool wants_read() const { return !ended && buffered < 1024 * 1024; }
  };
  enum class stage { startup, startup_answer, typed, opaque };

  static void push(lane& to, std::string bytes, clock::time_point due);
  bool can_write(const lane& from, clock::time_point now) const;
  bool stalled() const { return sent_to_client_ >= stall_after_; }
  void read_into(int fd, bool from_client, proxy_faults& faults);
  void write_from(lane& from, int fd, bool to_client);
  void pass_end(lane& from, int fd);
  void from_client(proxy_faults& faults);
  void from_server(std::string bytes, const proxy_faults& faults);
  bool apply_rules(const std::string& query, proxy_faults& faults, clock::time_point& due);

  int client_;
  int server_;
  stage stage_;
  std::string unparsed_;         // what the client sent, short of a whole message
  std::string server_unparsed_;  // and the server
  lane to_server_;
  lane to_client_;
  std::size_t stall_after_;
  std::size_t cut_after_;
  std::size_t sent_to_client_ = 0;
  bool finished_ = false;
};

}  // namespace pgwake::test
