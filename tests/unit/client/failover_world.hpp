#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/src/core/event_queue.hpp"
#include "client/src/core/failover.hpp"
#include "common/backoff.hpp"

namespace pgwake::test {

// A small PostgreSQL, hub and own connection around one failover core, driven by one seed: commits in one
// order, readers that lag, and everything that can break. It keeps the books on what the application sees.
class failover_world {
 public:
  failover_world(std::uint64_t seed, client::failover_settings settings, bool tracing = false);

  void run(int steps);  // with faults
  void settle();        // without, until everything is well
  // Publishes a last number on each channel and lets it arrive; then every book must balance.
  void close_books();

  const std::vector<std::string>& faults() const { return faults_; }  // of the client: empty is good
  const client::failover& core() const { return core_; }
  std::string trace() const;

 private:
  struct entry {
    std::string channel;
    std::string payload;
    int number;
  };
  // A LISTENing session: reads the log in order, and never sees what was committed before it began.
  struct session {
    bool open = false;
    std::size_t place = 0;
    std::set<std::string> listening;
    std::deque<std::string> to_listen;
  };
  struct book {
    bool subscribed = false;  // the application was told ok
    int last = 0;             // handed out
    int since = 0;            // nothing at or before this number is owed
    bool gap_since_last = false;
  };
  struct frame {
    from_hub what;
    bool end = false;  // the connection's
  };

  double random() { return jitter_.next(); }
  bool chance(double p) { return random() < p; }
  int below(int n) { return static_cast<int>(random() * n); }
  void note(std::string what);
  void fail(std::string what);

  void carry_out();
  void one(client::action& a);
  void see(const client::event& e);
  void take_events();

  void commit(const std::string& channel, std::string payload, int number);
  void publish();
  void application();
  void hub_turn();
  void hub_upstream();
  void hub_reads();
  void hub_to_client(from_hub m);
  void hub_takes(from_worker m);
  void client_reads();
  void own_turn();
  void lose_hub();
  void hurt();
  void step(bool faults);
  void timers();
  bool tick_if_due();
  status hub_status() const;
  bool refuses(const std::string& q) const;

  client::failover_settings settings_;
  client::failover core_;
  client::actions actions_;
  client::event_queue queue_{1U << 20U};
  jitter jitter_;
  steady_time now_{};
  std::vector<std::string> faults_;
  std::deque<std::string> trace_;
  bool tracing_;

  std::vector<entry> log_;
  std::map<std::string, int> numbers_;

  // the hub
  bool hub_runs_ = true;
  bool hub_frozen_ = false;
  bool hub_draining_ = false;
  steady_time hub_stops_at_{};
  session hub_session_;
  bool hub_healthy_ = false;
  steady_time hub_back_at_{};
  bool hub_full_ = false;                // it finds no connection while the client has one
  bool hub_limited_ = false;             // it takes no more than two channels
  std::map<std::string, int> hub_subs_;  // acked by it: 1, waiting: 0
  std::map<std::string, int> hub_unanswered_;
  std::set<std::string> hub_gaps_;  // owed after an outage
  bool linked_ = false;
  std::string token_;
  int hub_generation_ = 0;
  std::deque<frame> from_hub_;
  std::deque<from_worker> to_hub_;
  steady_time status_at_{};

  // the own connection
  bool own_started_ = false;
  bool own_allowed_ = true;
  session own_;
  steady_time own_opens_at_{};
  std::deque<std::string> own_wants_;
  std::set<std::string> own_wanted_;
  std::deque<std::string> own_says_;

  // the application
  std::map<std::string, book> books_;
  std::map<std::uint64_t, std::string> asking_;
  std::uint64_t requests_ = 0;
  bool slot_ = false;
};

}  // namespace pgwake::test
