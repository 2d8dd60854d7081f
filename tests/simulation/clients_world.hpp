#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "client/src/core/event_queue.hpp"
#include "client/src/core/machine.hpp"
#include "daemon/core/engine.hpp"
#include "simulation/database.hpp"
#include "simulation/random.hpp"
#include "simulation/tally.hpp"
#include "simulation/upstream_link.hpp"

namespace pgwake::simulation {

// A host with clients of the library: the hub's engine and the clients' machines are the real ones, each
// without its I/O; PostgreSQL, network, sockets and applications are models. Held to what an application
// sees: each notification once and in order, or a gap after the stretch in which it may be missing (C1, C2,
// C5, C6, C7).
class clients_world {
 public:
  static constexpr const char* program = "clients_simulation";
  static constexpr std::size_t rare_from = static_cast<std::size_t>(rare::handover_exact);
  static constexpr std::size_t rare_to = static_cast<std::size_t>(rare::count);

  struct operation {
    enum class kind : std::uint8_t {
      publish,
      publish_durable,
      publish_many,
      subscribe,
      unsubscribe,
      breathe,
      wait,
      wait_long,
      kill_hub,
      drain_hub,
      start_hub,
      freeze_hub,
      thaw_hub,
      crash,
      start,
      terminate_hub,
      terminate_own,
      black_hole,
      slow,
      clog,
      blink,
      attack,
      few_connections,
      count
    };
    kind what;
    std::uint64_t seed;
  };

  clients_world(std::uint64_t seed, tally& counts, bool tracing);
  static std::vector<operation> plan(std::uint64_t seed);
  void run(const std::vector<operation>& operations);
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  // Whoever has a session with PostgreSQL.
  struct party {
    std::string name;
    upstream_link link;
    bool frozen = false;
    std::function<void(const session_info&)> connected;
    std::function<void(bool full)> failed;
    std::function<void()> heard;
    std::function<void(const query_result&)> result;
    std::function<void(const database::notification&)> notification;
    std::function<void()> lost;
  };
  // What the application of one client knows of one channel.
  struct book {
    bool subscribed = false;
    std::uint64_t last = 0;   // the last number handed out
    std::uint64_t since = 0;  // nothing at or before it is owed
    bool dirty = false;       // a durable commit of which it has not heard
  };
  struct model_client {
    party session;
    std::unique_ptr<client::machine> machine;
    client::machine_actions actions;
    client::event_queue events{1U << 22U};
    enum class socket { none, knocking, open } link = socket::none;
    pgwaked::worker_id id = 0;  // at the hub, while open
    bool slot = false;
    bool ended = false;           // the hub has closed; what it sent before can still be read
    steady_time clogged_until{};  // its socket takes nothing more from the hub
    std::string to_hub;
    std::string from_hub;
    std::unique_ptr<frame_reader> reader;
    std::map<std::string, book> books;
    std::map<std::uint64_t, std::string> asking;
  };
  struct scheduled {
    steady_time at;
    std::uint64_t tie;
    std::function<void()> what;
    bool operator<(const scheduled& o) const { return at != o.at ? at > o.at : tie > o.tie; }
  };

  void perform(const operation& op);
  void trouble(operation::kind what);
  void advance(millis time);
  void settle();
  bool turn();
  void schedule(millis in, std::function<void()> what);
  void heal();
  void close_books();

  void connect(party& p);
  std::size_t sessions() const;
  void send(party& p, const std::string& sql);
  void server_finishes(party& p, std::uint64_t generation, const std::string& sql);
  void push_notifications(party& p);
  void arrive(party& p, upstream_link::packet what, millis latency);
  void end_server_session(party& p);
  void end(party& p);
  bool read_pass(party& p);
  void publish(bool durable);
  void clog();
  void attack();

  void start_hub();
  void kill_hub();
  void hub_acts();
  bool hub_turn();
  bool write_to(model_client& c);
  void hub_hangs_up(model_client& c);

  void client_acts(model_client& c);
  void carry_out(model_client& c, client::machine_action& a);
  bool client_turn(model_client& c);
  bool client_reads(model_client& c);
  void hand_out(model_client& c);
  void application(model_client& c, bool subscribe);

  template <typename... Parts>
  void note(const Parts&... parts) {
    if (tracing_) trace_line((std::string() + ... + parts));
  }
  void trace_line(const std::string& line);
  static std::string text(std::uint64_t n) { return std::to_string(n); }

  tally& tally_;
  bool tracing_;
  std::uint64_t seed_;
  random_source random_;
  steady_time now_{};
  std::priority_queue<scheduled> timers_;
  std::vector<std::string> trace_;
  database database_;
  bool server_up_ = true;
  bool slow_ = false;
  std::size_t most_sessions_ = SIZE_MAX;  // that the server has for this host
  std::size_t most_slots_ = SIZE_MAX;     // `fallback_limit`
  bool healed_ = false;
  steady_time attacked_until_{};
  std::map<std::string, std::uint64_t> numbers_;  // published on each channel

  std::unique_ptr<pgwaked::engine> engine_;
  party hub_;
  std::uint64_t hubs_ = 0;
  std::optional<steady_time> stops_at_;  // set: it drains
  std::list<model_client> clients_;
  std::vector<std::string> channels_ = {"a", "b", "c"};
  std::uint64_t requests_ = 0;
};

}  // namespace pgwake::simulation
