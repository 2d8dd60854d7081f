#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "integration/rig.hpp"
#include "pgwake/pgwake.hpp"

namespace pgwake::test {

using client_values = std::vector<std::pair<std::string, std::string>>;

/// One event, kept.
struct seen {
  int kind = 0;
  int source = 0;
  std::string channel{};
  std::optional<std::string> payload{};
  std::string gap{};
  int by = 0;
  bool healthy = false;
  std::string reason{};

  bool wake() const { return kind == PGWAKE_EVENT_WAKE; }
  bool durable() const { return wake() && !payload && gap.empty(); }
};
seen keep(const event& e);

/// A client and what it has been given so far. One thread.
class witness {
 public:
  witness(const std::string& socket, const std::string& database, const client_values& more);

  listener& client() { return client_; }
  const std::vector<seen>& events() const { return events_; }
  void forget() { events_.clear(); }
  /// Takes events until one fulfils `wanted` (those taken before count too) or `patience` has passed.
  bool await(const std::function<bool(const seen&)>& wanted, milliseconds patience = 10s);
  bool await_wake(std::string_view channel, const std::optional<std::string>& payload = std::nullopt,
                  milliseconds patience = 10s);
  bool await_gap(std::string_view channel, milliseconds patience = 10s);
  /// Until the client says that this side serves it, and well; takes the events that came with it.
  bool await_source(source s, milliseconds patience = 15s);
  /// All that waits, and what comes within `duration`.
  void take(milliseconds duration = milliseconds(0));
  std::size_t count(const std::function<bool(const seen&)>& which) const;
  std::size_t gaps() const {
    return count([](const seen& e) { return !e.gap.empty(); });
  }

 private:
  listener client_;
  std::vector<seen> events_;
};

/// Numbers on channels, published in order; and what the application must see of them: each once and in
/// order, or a gap between those it saw before and those after.
class ledger {
 public:
  void take(const seen& e);
  void take(const std::vector<seen>& events) {
    for (const auto& e : events) take(e);
  }
  int last(const std::string& channel) const;
  std::size_t gaps() const { return gaps_; }
  std::size_t seen_numbers() const { return numbers_; }
  /// Wrong things, for people; empty is good.
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  struct book {
    int last = 0;
    bool gap = true;  // the first number may be any
  };
  std::map<std::string, book> books_;
  std::size_t gaps_ = 0;
  std::size_t numbers_ = 0;
  std::vector<std::string> faults_;
};

/// A hub on a database of its own, and clients of it whose own connections are told apart by name.
class client_rig {
 public:
  explicit client_rig(rig_options options = {});

  rig& host() { return rig_; }
  hub_daemon& hub() { return rig_.hub(); }
  void notify(std::string_view channel, std::string_view payload = {}) { rig_.notify(channel, payload); }
  /// With quick timers, `more` over them.
  witness client(const client_values& more = {});
  client_values values(const client_values& more = {}) const;
  std::string conninfo() const { return rig::pg().conninfo(rig_.database()); }
  /// Own connections of this rig's clients.
  int own_census() const;
  std::vector<int> own_pids() const;
  int terminate_own() const;

 private:
  rig rig_;
  std::string name_;
};

/// Runs `body` in a child and answers its exit code; -1 if a signal ended it.
int in_child(const std::function<int()>& body);

/// Stands where a hub would, says what it is told to, and nothing else. Serves one connection at a time, in a
/// thread.
class fake_hub {
 public:
  using script = std::function<void(int fd, const std::function<bool(std::string_view frame)>& say)>;
  /// `play` is called for each connection; when it returns, the connection is closed.
  explicit fake_hub(script play);
  ~fake_hub();
  fake_hub(const fake_hub&) = delete;
  fake_hub& operator=(const fake_hub&) = delete;

  std::string path() const { return home_ / "hub.sock"; }
  int connections() const { return connections_; }

  static std::string welcome(int heartbeat_ms = 5000);
  static constexpr std::string_view healthy = R"({"t":"status","healthy":true})";
  static constexpr std::string_view ill = R"({"t":"status","healthy":false,"reason":"testing"})";
  /// The next frame of the worker; nothing when it has gone or the test ends.
  std::optional<frame> hear(int fd);
  bool stopping() const { return stopping_; }
  /// Until the worker goes or the test ends; answers no frame.
  void ignore(int fd) {
    while (hear(fd)) {
    }
  }

 private:
  temp_dir home_;
  script play_;
  int listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::map<int, frame_reader> readers_;
  std::thread thread_;
};

}  // namespace pgwake::test
