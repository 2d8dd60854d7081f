#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "common/upstream.hpp"
#include "daemon/core/dialect.hpp"
#include "daemon/core/frame_line.hpp"
#include "daemon/core/front_door.hpp"
#include "daemon/core/hub.hpp"
#include "daemon/core/stats_desk.hpp"
#include "daemon/core/worker_protocol.hpp"

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

// By the queue's template; the options have refused one that does not parse.
pgwake::queue_template queue_template_of(const std::string& text);
// A worker's name, cut at a character's border, for status and logs.
std::string shown_name(std::string text);

// The whole daemon without its I/O: the upstream, the hub and one protocol per worker, wired together. The
// app, the simulation and the fuzzers drive the same engine.
//
//   worker bytes -> worker_protocol -> (frame_line) -> hub -> upstream -> `send`
//   notification -> hub -> outboxes -> `touched`
//
// Everything that happened in one call is settled when it returns: actions are in `actions()`, workers that
// have something to write in `touched()`. But frames wait for turn() where one worker or user sends many: its
// owner takes what PostgreSQL has said, and writes outboxes, between turns.
class engine {
 public:
  struct config {
    pgwake::upstream::settings upstream;
    hub::limits limits;
    std::string queue_template = "pgmq.q_{}.INSERT";
    pgwake::millis frame_deadline{10'000};
    // So long a login must have been refused before workers that cannot be told are closed.
    pgwake::millis hopeless_after{10'000};
    std::size_t max_workers = 4'096;
    quota workers_of_user{};
    std::uint32_t own_uid = 0;  // the user that the hub runs as
    pgwake::millis front_door_grace{15'000};
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
    pgwake::log_fields fields;
    std::uint32_t uid;      // whose worker it is
    bool politely = false;  // what it was told has to reach it: it reads to the end before the socket goes
    bool refused = false;   // it never had a place
  };
  // One answer for them all: answer_stats(); the next is asked for after that.
  struct make_stats {
    stats_desk::view eyes;
    std::vector<worker_id> askers;
  };
  // Judge the asker's rights, act, and answer with answer_control().
  struct do_control {
    worker_id worker;
    pgwake::control_request control;
  };
  struct note {
    enum class level { trace, debug, info, warning } how;
    std::string event;
    pgwake::log_fields fields;
  };
  using action =
      std::variant<connect, send, notify_outside, close_session, close_worker, make_stats, do_control, note>;

  engine(config c, std::uint64_t seed);

  // How much is noted of what goes on: nothing but what people act on, each step of the upstream and each
  // verdict (debug), or each frame and notification, too (trace). Never a payload.
  enum class detail { usual, debug, trace };
  void tell(detail d) { detail_ = d; }

  void start(pgwake::steady_time now);
  // Says so to every worker; nobody is closed yet.
  void drain(pgwake::millis grace, pgwake::steady_time now);
  // No v1 worker holds a subscription any more.
  bool drained() const;
  void stop(pgwake::steady_time now);                     // bye to all, session closed
  void change(const config& c, pgwake::steady_time now);  // on reload
  void reconnect(pgwake::steady_time now);
  void hurry(pgwake::steady_time now);                // without a session, tries again at once
  bool evict(worker_id id, pgwake::steady_time now);  // by an operator; false: no such worker

  // Workers. refusal() first: set, it is the reason not to let this one in. Of a full hub so many places
  // more are for operators.
  static constexpr std::size_t most_visitors = 8;
  std::optional<pgwake::bye> refusal(const peer& who) const;
  worker_id joined(const peer& who, std::string token, pgwake::steady_time now);
  // At the front door everybody is heard; who is refused is told so in answer. `secret`: 64 bits that nobody
  // can guess. `shut`: nobody is let in by the socket that it came to. False of may_knock(): there are too
  // many already for even that.
  static constexpr std::size_t most_refused = 64;
  bool may_knock(const peer& who, bool shut = false) const {
    return door_.refused() < most_refused || (!shut && !refusal(who));
  }
  worker_id joined_at_door(const peer& who, std::uint64_t secret, pgwake::steady_time now, bool shut = false);
  // Takes what a worker said, as far as its share of this turn goes; the rest waits for turn().
  void bytes(worker_id id, std::string_view data, pgwake::steady_time now);
  // The next turn of those who wait, by user before by connection.
  void turn(pgwake::steady_time now);
  bool busy() const { return !line_.empty(); }  // somebody waits for turn()
  // Workers that may be read again, which may_read() had denied: taken by the owner.
  std::vector<worker_id>& readable() { return readable_; }
  void left(worker_id id, pgwake::steady_time now);
  void answer_stats(std::string json, pgwake::steady_time now);
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
    if (!held_back_.empty()) let_go(id);
  }
  // False: read no more from it now. It is past its bound of unsent answers (D7), or frames of it wait.
  bool may_read(worker_id id);
  // It has said more than it was answered, and may be answered again: resume() when no call is under way.
  bool stalled(worker_id id) const { return door_.stalled(id) && hub_.may_read(id); }
  void resume(worker_id id, pgwake::steady_time now);

  struct member {
    peer who;
    worker_protocol protocol;
    std::string token;
    std::string name;
    std::optional<std::string> wants_db;
    pgwake::steady_time since;
    bool operates = false;       // an operator's connection: it asks and commands, and is no worker
    bool paused = false;         // the hub did not read it of late (D7)
    bool dismissed = false;      // its last frame is queued; what it still sends is ignored
    bool welcomed = false;       // and so told which database and cluster is served
    bool waits = false;          // it stands in line_
    bool held_back = false;      // past its bound of unsent answers, with frames that were read already
    std::uint64_t taken = 0;     // frames
    std::size_t unfinished = 0;  // bytes of a large frame that is not complete
    std::optional<pgwake::steady_time>
        admitted_until{};                      // past max_workers: by then it must say that it operates
    std::optional<pgwake::steady_time> due{};  // its key in deadlines_
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
  std::size_t workers() const { return members_.size() - visitors_; }
  const config& settings() const { return config_; }
  const std::optional<std::string>& database() const { return database_; }
  const std::optional<std::string>& system_id() const { return system_id_; }
  bool draining() const { return draining_; }
  const front_door& door() const { return door_; }

 private:
  void settle(pgwake::steady_time now);
  template <class Call>
  void tell_upstream(pgwake::steady_time now, Call call);
  void take(hub::action& a, pgwake::steady_time now);
  void take(front_door::action& a, pgwake::steady_time now);
  void take(pgwake::upstream::actions& from, pgwake::steady_time now);
  void take(worker_id id, member& m, worker_protocol::event& e, pgwake::steady_time now);
  std::size_t serve(worker_id id, std::size_t most, pgwake::steady_time now);
  void stand_in_line(worker_id id, member& m);
  void let_go(worker_id id);
  void note_deadline(worker_id id, member& m);
  void note_unfinished(worker_id id, member& m, pgwake::steady_time now);
  void overdue(pgwake::steady_time now);
  void forget(worker_id id);
  void subscribe(worker_id id, const member& m, const std::string& channel, pgwake::steady_time now);
  owner owner_of(const peer& who) const;
  std::string crowded(const peer& who) const;
  void send_away(worker_id id, member& m, pgwake::steady_time now);
  void work_desk(pgwake::steady_time now);
  void greet(worker_id id, member& m, const pgwake::hello& h, pgwake::steady_time now);
  void dismiss(worker_id id, member& m, pgwake::code why, std::string reason, pgwake::steady_time now,
               bool refused = false);
  void tell_health(pgwake::steady_time now);
  void judge_hope(pgwake::steady_time now);
  std::string unserved() const;
  void note_frame(worker_id id, const worker_protocol::event& e);
  void note_step(const pgwake::upstream::action& a);
  void identified(std::string database, std::string system_id, pgwake::steady_time now);
  channel_access access_of(const peer& who) const;
  pgwake::log_fields describe(worker_id id, const member& m) const;

  config config_;
  dialect_v0 v0_;
  dialect_v1 v1_;
  dialect_pg pg_;
  front_door door_;
  hub hub_;
  pgwake::upstream upstream_;
  std::unordered_map<worker_id, member> members_;
  struct user {
    std::size_t workers = 0;
    std::size_t unfinished = 0;
  };
  std::unordered_map<std::uint32_t, user> users_;
  std::size_t visitors_ = 0;  // members that are no workers: operators, and who may turn out to be one
  std::set<std::pair<pgwake::steady_time, worker_id>> deadlines_;  // of frames begun, and of visitors
  frame_line line_;
  std::size_t spent_ = 0;  // frames taken since the last turn()
  std::unordered_set<worker_id> held_back_;
  std::vector<worker_id> readable_;
  stats_desk desk_;
  std::vector<worker_id> asking_;  // for the answer that is being made
  std::vector<action> actions_;
  std::vector<worker_protocol::event> events_;
  std::optional<std::string> database_;
  std::optional<std::string> system_id_;
  std::uint32_t slots_ = 0;  // of the server, for ordinary roles; 0: not known
  std::optional<pgwake::status> told_;
  // Since when logins have been refused: waiting does not mend that, a worker's own connection may work.
  std::optional<pgwake::steady_time> refused_since_;
  bool hopeless_ = false;  // and that has lasted
  std::uint32_t grace_ms_ = 0;
  bool draining_ = false;
  detail detail_ = detail::usual;
  counted counts_;
};

}  // namespace pgwaked
