#pragma once

#include <functional>
#include <list>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/engine.hpp"
#include "simulation/database.hpp"
#include "simulation/door_client.hpp"
#include "simulation/model_worker.hpp"
#include "simulation/random.hpp"
#include "simulation/tally.hpp"
#include "simulation/upstream_link.hpp"

namespace pgwake::simulation {

// One thing that happens. Each draws its randomness from a seed of its own, so that a run stays a run when
// others are taken out of it (that is how a failing one is made small).
struct operation {
  enum class kind : std::uint8_t {
    publish_durable,
    publish_ephemeral,
    publish_transaction,
    publish_flood,
    publish_fence,
    join_v1,
    join_v0,
    join_door,
    die,
    sub,
    unsub,
    sub_burst,
    bad_name,
    ping,
    unknown_frame,
    malformed_frame,
    half_a_frame,
    flood,
    crowd,
    driver_asks,
    driver_trouble,
    stall,
    wake_up,
    breathe,
    wait,
    wait_long,
    crash,
    start,
    terminate,
    black_hole,
    fail_query,
    slow_query,
    bad_channel,
    good_channels,
    login_trouble,
    pooler,
    standby,
    reconnect,
    evict,
    count
  };
  kind what;
  std::uint64_t seed;
};

// A host, its hub and PostgreSQL: the engine itself, everything else a model, all of it driven by one seed.
// What breaks a promise throws a violation.
class world {
 public:
  using operation = simulation::operation;
  static constexpr const char* program = "simulation";
  static constexpr std::size_t rare_from = 0;
  static constexpr std::size_t rare_to = static_cast<std::size_t>(rare::handover_exact);

  world(std::uint64_t seed, tally& counts, bool tracing);

  static std::vector<operation> plan(std::uint64_t seed);
  // All of it, then heals everything and checks that nothing is owed, then lets everyone go and checks that
  // nothing is left.
  void run(const std::vector<operation>& operations);

  const std::vector<std::string>& trace() const { return trace_; }

 private:
  using worker_list = std::list<model_worker>;
  struct scheduled {
    steady_time at;
    std::uint64_t tie;  // random: timers of one instant come in any order
    std::function<void()> what;
    bool operator<(const scheduled& other) const {
      return at != other.at ? at > other.at : tie > other.tie;  // the queue's top is the earliest
    }
  };

  // world.cpp: time, the loop, the end.
  static pgwaked::engine::config configure(random_source& random);
  void perform(const operation& op);
  void schedule(millis in, std::function<void()> what);
  void advance(millis time);
  void settle(bool may_skip_timers);
  bool turn(bool may_skip_timers);
  void heal();
  void let_go();
  template <typename... Parts>
  void note(const Parts&... parts) {
    if (tracing_) trace_line((std::string() + ... + parts));
  }
  void trace_line(const std::string& line);
  [[noreturn]] void broken(const std::string& what) const;
  static std::string text(std::uint64_t n) { return std::to_string(n); }

  // world_upstream.cpp: the session.
  void act();
  void connect();
  void connect_outcome(std::uint64_t generation);
  void connect_fails(std::uint64_t generation, bool login);
  void answers_badly(std::uint64_t generation);
  void send(std::string sql);
  void server_starts(std::uint64_t generation, const std::string& sql);
  void server_finishes(std::uint64_t generation, const std::string& sql);
  void push_notifications();
  void arrive(upstream_link::packet p, millis latency);
  void end_server_session();
  void close_session(const std::string& reason);
  bool read_pass();
  void lost(const char* how);
  bool listens(const std::string& channel) const;
  void upstream_operation(const operation& op);

  // world_worker.cpp: workers, publishing.
  void publish(std::size_t notifications, bool durable, std::size_t filler);
  void committed(const database::notification& n);
  void send_fence();
  void join(bool v1);
  void flood(model_worker& w, std::uint64_t frames);
  void crowd();
  void take_turn();
  void worker_operation(const operation& op);
  model_worker* some_worker();
  std::string some_channel(const model_worker& w);
  void put(model_worker& w, const std::string& json, model_worker::sent what,
           const std::string& channel = "");
  void send_sub(model_worker& w, const std::string& channel);
  void send_unsub(model_worker& w, const std::string& channel);
  void bad_name(model_worker& w);
  void die(model_worker& w);
  void closed_by_hub(model_worker& w, bool flush, const std::string& fields);
  bool exchange(model_worker& w);
  bool deliver(model_worker& w);
  bool flush(model_worker& w);
  bool read(model_worker& w);
  model_worker* find(pgwaked::worker_id id);

  // world_door.cpp: drivers at the front door, and their promises.
  door_client* find_at_door(pgwaked::worker_id id);
  void join_door();
  void ask(door_client& c, const std::string& sql, std::set<std::string> after, bool commits);
  void driver_asks(door_client& c);
  void driver_operation(const operation& op);
  void driver_leaves(door_client& c);
  void driver_closed(door_client& c, const std::string& fields);
  bool flush_driver(door_client& c);
  bool exchange(door_client& c);
  void driver_hears(door_client& c, char type, const std::string& body);
  void driver_ready(door_client& c, char how);
  void driver_notified(door_client& c, const std::string& body);
  void driver_told(door_client& c, const std::string& payload);
  void driver_session_lost();
  bool is_settled(const door_client& c) const;
  void check_settled(door_client& c);

  // world_check.cpp: the promises.
  void after_call();
  void frames_taken();
  void note_over(model_worker& w);
  void look_at(model_worker& w);
  std::vector<std::string> waiting(model_worker& w);
  void check_gap_places(model_worker& w);
  void frame_queued(model_worker& w, const from_hub& message);
  void ack_queued(model_worker& w, const ack& a);
  void nack_queued(model_worker& w, const nack& n);
  void frame_processed(model_worker& w, const model_worker::sent_frame& f);
  void frame_received(model_worker& w, const from_hub& message);
  void answer_received(model_worker& w, const std::string& name, bool good, code why);
  void wake_received(model_worker& w, const wake& message);
  void ephemeral_received(model_worker& w, channel_state& s, const std::string& channel, const wake& message);
  void durable_received(model_worker& w, channel_state& s, const std::string& channel, const wake& message);
  void fence_received(model_worker& w, std::uint64_t id);
  void excuse_fence(const database::notification& n);
  void check_bounds();
  void check_references();
  void check_coalescing(model_worker& w);
  void check_health();
  void check_settled(model_worker& w);
  bool is_settled(const model_worker& w) const;
  std::string channel_of(const model_worker& w, const std::string& name) const;
  std::size_t listened_since(const std::string& channel) const;

  tally& tally_;
  bool tracing_;
  std::uint64_t seed_;
  random_source random_;
  pgwaked::engine::config config_;
  mutable pgwaked::engine engine_;  // mutable: its views are not const
  steady_time now_{};
  std::priority_queue<scheduled> timers_;
  std::vector<std::string> trace_;

  database database_;
  std::vector<std::string> pool_;   // channels of this run
  std::set<std::string> ever_bad_;  // channels whose LISTEN the server refused at some time
  bool server_up_ = true;
  bool refuse_login_ = false;
  bool pooler_ = false;
  bool one_slot_ = false;
  int ghosts_ = 0;  // sessions the hub gave up and the server has not missed yet
  bool slow_ = false;
  bool deaf_next_ = false;
  bool reads_small_ = false;  // notifications and answers arrive in passes of their own
  upstream_link link_;
  std::map<std::string, std::size_t> since_;  // channel -> place from which the hub's last LISTEN of it hears

  worker_list workers_;
  std::list<door_client> drivers_;
  std::optional<steady_time> unhealthy_since_;
  std::map<pgwaked::stats_desk::view, steady_time> next_stats_;
  std::uint64_t next_fence_ = 1;
  std::uint64_t steps_ = 0;
  std::set<std::string> overtaking_;  // channels of notifications read since the last look, not active
  std::uint64_t gaps_ = 0;            // the hub's count of them at the last look
  bool healed_ = false;               // no new trouble
  bool overdue_ = false;              // and all the time that its end may take is over
};

}  // namespace pgwake::simulation
