#pragma once

#include <libpq-fe.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/stats.hpp"
#include "bench/wire.hpp"

namespace pgwake::bench {

// Many receivers in one thread, whatever they speak: one epoll, each message counted per receiver.
class receivers {
 public:
  receivers();
  ~receivers();
  receivers(const receivers&) = delete;
  receivers& operator=(const receivers&) = delete;

  // One receiver: reads what is there (without blocking) and says how many messages came. `fd` stays the
  // caller's.
  void add(int fd, std::function<std::size_t()> read);

  std::size_t size() const { return entries_.size(); }
  std::size_t total() const { return total_; }
  // From now on counts start at 0; the clock of first_at() too.
  void restart();
  // Handles what is ready, waiting up to `timeout_ms` for it. How many messages came.
  std::size_t turn(int timeout_ms);
  // Until each has at least `each` messages since restart(). Throws when nothing comes for 30 s.
  void await_each(std::size_t each);
  // Until `total` came in all.
  void await_total(std::size_t total);
  // How many receivers have fewer than `each`.
  std::size_t behind(std::size_t each);
  steady::time_point first_at() const { return first_at_; }
  steady::time_point last_at() const { return last_at_; }

 private:
  template <typename Done>
  void turn_until(Done&& done);

  struct entry {
    std::size_t got = 0;
    std::function<std::size_t()> read;
  };
  int epoll_;
  std::vector<std::unique_ptr<entry>> entries_;
  std::size_t total_ = 0;
  std::size_t goal_ = 0;  // of await_each
  std::size_t reached_ = 0;
  steady::time_point first_at_;
  steady::time_point last_at_;
};

// Deliveries per second between the first and the last. `feed` starts the burst.
template <typename Feed>
std::vector<double> burst(receivers& all, std::size_t messages, Feed&& feed) {
  all.restart();
  const auto deliveries = messages * all.size();
  feed();
  all.await_total(deliveries);
  const std::chrono::duration<double> took = all.last_at() - all.first_at();
  return {static_cast<double>(deliveries) / took.count()};
}

// Reads a non-blocking socket once and counts by `w`.
std::size_t read_socket(int fd, wire& w);

// Workers of a hub that speak frames by hand, all subscribed to the same channels; closed at destruction.
class frame_workers {
 public:
  // Waits for every ack.
  frame_workers(const std::string& socket, std::size_t count, const std::vector<std::string>& channels);
  ~frame_workers();
  frame_workers(const frame_workers&) = delete;
  frame_workers& operator=(const frame_workers&) = delete;

  void add_to(receivers& all);
  const std::vector<int>& descriptors() const { return fds_; }

 private:
  std::vector<int> fds_;
  std::vector<std::unique_ptr<pgwake_wire>> wires_;
};

// Connects one worker per script of `sub` frames, then sends all scripts at once: seconds until each has
// `acks_each` acks.
double subscribe_all(const std::string& socket, const std::vector<std::string>& scripts,
                     std::size_t acks_each);

// Plain libpq sessions that LISTEN for themselves: what pgwake is measured against.
class direct_sessions {
 public:
  explicit direct_sessions(std::string conninfo) : conninfo_(std::move(conninfo)) {}
  ~direct_sessions();
  direct_sessions(const direct_sessions&) = delete;
  direct_sessions& operator=(const direct_sessions&) = delete;

  void grow(std::size_t count);  // opens up to that many
  // The first `count` listen to `channel`, the others to nothing.
  void listen(std::size_t count, const std::string& channel);
  void add_to(receivers& all, std::size_t count);
  PGconn* at(std::size_t i) { return sessions_[i]; }
  std::size_t size() const { return sessions_.size(); }

 private:
  std::string conninfo_;
  std::vector<PGconn*> sessions_;
  std::size_t listening_ = 0;
};

// Connects, or throws with libpq's message.
PGconn* connect_postgres(const std::string& conninfo);
// Runs it to its end, or throws.
void execute(PGconn* conn, const std::string& sql);

}  // namespace pgwake::bench
