#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/upstream.hpp"
#include "daemon/dialect.hpp"
#include "daemon/hub.hpp"
#include "daemon/worker_protocol.hpp"

namespace pgwaked {

// Who is at the other end of a worker's socket, by SO_PEERCRED.
struct peer {
  int pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// A rule of the allow-list: whom it admits, and to which channels (empty: all).
struct admission {
  enum class who { everyone, uid, gid };
  who kind = who::everyone;
  std::uint32_t id = 0;
  std::vector<std::string> globs;
};

// The whole daemon without its I/O: the upstream, the hub and one protocol per worker, wired together. The
// app, the simulation and the fuzzers drive the same engine.
//
//   worker bytes -> worker_protocol -> hub -> upstream -> `send`
//   notification -> hub -> outboxes -> `touched`
//
// Everything that happened in one call is settled when it returns: actions are in `actions()`, workers that
// have something to write in `touched()`.
class engine {
 public:
  struct config {
    pgwake::upstream::settings upstream;
    hub::limits limits;
    std::string queue_template = "pgmq.q_{}.INSERT";
    pgwake::millis frame_deadline{10'000};
    std::size_t max_workers = 4'096;
    std::vector<admission> allow;  // empty: everyone
    std::string hub_uuid;
    std::string version;
  };

  struct connect {};
  struct send {
    std::string sql;
  };
  using notify_outside = pgwake::upstream::notify_outside;
  struct close_session {
    std::string reason;
  };
  // Close the worker's socket. With `flush` its outbox is offered to it once before.
  struct close_worker {
    worker_id worker;
    bool flush;
    std::string event;
    std::string fields;
  };
  struct make_stats {
    worker_id worker;
  };  // answer with answer_stats()
  struct do_control {
    worker_id worker;
    pgwake::control_request control;
  };  // judge the asker's rights, act, and answer with answer_control()
  struct note {
    bool warning;
    std::string event;
    std::string fields;
  };
  using action =
      std::variant<connect, send, notify_outside, close_session, close_worker, make_stats, do_control, note>;

  engine(config c, std::uint64_t seed);

  void start(pgwake::steady_time now);
  // Says so to every worker; nobody is closed yet.
  void drain(pgwake::millis grace, pgwake::steady_time now);
  // No v1 worker holds a subscription any more.
  bool drained() const;
  void stop(pgwake::steady_time now);                     // bye to all, session closed
  void change(const config& c, pgwake::steady_time now);  // on reload
  void reconnect(pgwake::steady_time now);
  bool evict(worker_id id, pgwake::steady_time now);  // by an operator; false: no such worker

  // Workers. refusal() first: set, it is the reason not to let this one in.
  std::optional<pgwake::bye> refusal(const peer& who) const;
  worker_id joined(const peer& who, std::string token, pgwake::steady_time now);
  void bytes(worker_id id, std::string_view data, pgwake::steady_time now);
  void left(worker_id id, pgwake::steady_time now);
  void answer_stats(worker_id id, std::string json, pgwake::steady_time now);
  void answer_control(worker_id id, pgwake::control_answer answer, pgwake::steady_time now);

  // The session, as `connect` and `send` brought about.
  void connected(const pgwake::session_info& info, pgwake::steady_time now);
  void connect_failed(const pgwake::connect_failure& failure, pgwake::steady_time now);
  void notified_outside(std::string_view payload, const std::string& trouble, pgwake::steady_time now);
  void result(const pgwake::query_result& r, pgwake::steady_time now);
  void heard(pgwake::steady_time now) { upstream_.heard(now); }
  void notification(std::string_view channel, std::string_view payload, int by, pgwake::steady_time now);
  void session_lost(std::string reason, pgwake::steady_time now);

  // `quiet`: there is no session, or a read pass of it just found nothing.
  void tick(pgwake::steady_time now, bool quiet);
  std::optional<pgwake::steady_time> deadline() const;

  std::vector<action>& actions() { return actions_; }
  std::vector<worker_id>& touched() { return hub_.touched(); }
  outbox* open_outbox(worker_id id) { return hub_.open_outbox(id); }
  void written(worker_id id, std::size_t bytes, std::optional<pgwake::steady_time> now = {}) {
    hub_.written(id, bytes, now);
  }
  // False: past its bound of unsent answers, read no more from it until it drains (D7).
  bool may_read(worker_id id);

  struct member {
    peer who;
    worker_protocol protocol;
    std::string token;
    std::string name;
    std::optional<std::string> wants_db;
    pgwake::steady_time since;
    bool paused = false;     // the hub did not read it of late (D7)
    bool dismissed = false;  // its last frame is queued; what it still sends is ignored
  };
  struct counted {
    std::uint64_t unknown_frames = 0;
    std::uint64_t protocol_errors = 0;
    std::uint64_t frames = 0;
  };
  const hub& the_hub() const { return hub_; }
  const pgwake::upstream& the_upstream() const { return upstream_; }
  const std::unordered_map<worker_id, member>& members() const { return members_; }
  const counted& counts() const { return counts_; }
  const config& settings() const { return config_; }
  const std::optional<std::string>& database() const { return database_; }
  const std::optional<std::string>& system_id() const { return system_id_; }
  bool draining() const { return draining_; }

 private:
  void settle(pgwake::steady_time now);
  void take(pgwake::upstream::actions& from, pgwake::steady_time now);
  void take(worker_id id, member& m, worker_protocol::event& e, pgwake::steady_time now);
  void greet(worker_id id, member& m, const pgwake::hello& h, pgwake::steady_time now);
  void dismiss(worker_id id, member& m, pgwake::code why, std::string reason, pgwake::steady_time now);
  void tell_health(pgwake::steady_time now);
  channel_access access_of(const peer& who) const;
  std::string describe(worker_id id, const member& m) const;

  config config_;
  dialect_v0 v0_;
  dialect_v1 v1_;
  hub hub_;
  pgwake::upstream upstream_;
  std::unordered_map<worker_id, member> members_;
  std::unordered_map<worker_id, pgwake::steady_time> unfinished_;  // deadlines of frames begun
  std::vector<action> actions_;
  std::vector<worker_protocol::event> events_;
  std::optional<std::string> database_;
  std::optional<std::string> system_id_;
  std::optional<std::tuple<bool, bool, std::string>> told_;  // healthy, draining, reason
  std::uint32_t grace_ms_ = 0;
  bool draining_ = false;
  counted counts_;
};

}  // namespace pgwaked
