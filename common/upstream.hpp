#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "common/backoff.hpp"
#include "common/listen_plan.hpp"
#include "common/log_fields.hpp"
#include "common/secret.hpp"
#include "common/time.hpp"

namespace pgwake {

// What a query brought, once the server was ready again.
struct query_result {
  bool ok = false;
  std::size_t completed = 0;  // statements that the server says it has carried out
  std::string sqlstate;
  std::string message;
  std::vector<std::optional<std::string>> row;  // the last result's first row
};

// A session that libpq has just opened.
struct session_info {
  int backend_pid = 0;  // as libpq knows it
  int server_version = 0;
  std::string server;  // host:port or socket directory, for people
  std::string user;    // the role that logged in
};

struct connect_failure {
  std::string message;
  bool login_refused = false;  // a wrong password and the like: retried more slowly
  std::string user = {};       // the role that was to log in, if known
  bool full = false;           // the server, the database or the role has no connection to spare (53300)
};

// The upstream's life: one session at a time is opened, checked, kept, judged dead, replaced; LISTENs are
// sent and their outcome told. Pure: the shell connects, sends queries and reports.
//
//   idle        not started, or stopped
//   waiting     until the next attempt is due
//   connecting  an attempt is under way (one at a time, until it has returned)
//   checking    the session is open; the steps of `check` run one after another (U3)
//   live        checked: LISTENs flow, silence is probed
//
// Invariants: at most one session and one command exist at a time. `activated` is told only for channels
// whose LISTEN the live session has committed. `healthy` is told only when the session is live and every
// channel that was active before the outage is active again (G3).
class upstream {
 public:
  struct settings {
    millis probe_interval{15'000};
    millis probe_timeout{5'000};
    millis lock_timeout{3'000};
    backoff_limits reconnect{millis{100}, millis{3'000}};
    backoff_limits login{millis{1'000}, millis{30'000}};
    millis short_life{10'000};       // a session that died sooner was not a success
    millis short_life_delay{1'000};  // and its successor waits up to this
    bool allow_session_pooler = false;
    std::string self_check;  // prefix of this instance's own NOTIFY payloads; no other instance has it
    secret_source secret;    // the rest of such a payload, fresh each time; none: of the seed
    listen_plan::limits listen{};
  };

  enum class state { idle, waiting, connecting, checking, live };

  // Actions for the shell.

  // Open a session; answer connected() or connect_failed(). An attempt under way is given up, its answer is
  // void.
  struct connect {};
  // One simple query; answer result().
  struct send {
    std::string sql;
  };
  // Close the session, cancel what it runs; no answer.
  struct close {
    std::string reason;
  };
  // Run it in a session of its own, for a moment; answer notified_outside().
  struct notify_outside {
    std::string payload;
    std::string sql;
  };
  // Events for the owner.
  struct activated {
    std::string channel;
  };
  struct refused {
    std::string channel;
    code why;
    std::string sqlstate;
    std::string reason;
  };
  // Every channel is inactive now; tell before anything newer.
  struct lost {
    std::string reason;
  };
  // It changed.
  struct health {
    bool healthy;
    std::string reason;
    std::string detail;
  };
  // Each new session, before `live`.
  struct identified {
    std::string database;
    std::string system_id;
    std::uint32_t slots = 0;  // connections that the server has for ordinary roles; 0: not known
  };
  // The outcome of say().
  struct said {
    std::string payload;
    bool ok;
    std::string reason;
  };
  // For the log.
  struct note {
    enum class level { info, warning } how;
    std::string event;
    log_fields fields;
  };
  using action = std::variant<connect, send, close, notify_outside, activated, refused, lost, health,
                              identified, said, note>;
  using actions = std::vector<action>;

  upstream(settings s, std::uint64_t seed);

  void start(steady_time now, actions& out);
  void stop(actions& out);
  // Closes the session, if any, or gives up the attempt under way, and opens another at once.
  void reconnect(std::string reason, steady_time now, actions& out);
  // Tries again at once, unless there is a session: what stood in the way may have been mended.
  void hurry(steady_time now, actions& out);

  void connected(const session_info& info, steady_time now, actions& out);
  void connect_failed(const connect_failure& failure, steady_time now, actions& out);
  void result(const query_result& r, steady_time now, actions& out);
  // The server closed the session or broke it.
  void session_lost(std::string reason, steady_time now, actions& out);
  // Bytes came from the server.
  void heard(steady_time now) { last_heard_ = now; }
  // A notification on the fence channel; true if it was this instance's own check, of this
  // session or another.
  bool own_check(std::string_view payload, steady_time now, actions& out);
  // The outcome of notify_outside, by its payload. `trouble` empty: it was committed.
  void notified_outside(std::string_view payload, const std::string& trouble, steady_time now, actions& out);
  // Time has passed. `quiet`: a read pass just found nothing; only then deadlines of the server
  // are judged (U4).
  void tick(steady_time now, bool quiet, actions& out);
  std::optional<steady_time> deadline() const;

  // True if the channel is active already; else `activated` or `refused` follows. Askers are served in turns.
  bool want(const std::string& channel, steady_time now, actions& out, std::uint64_t asker = 0);
  void unwant(const std::string& channel, steady_time now, actions& out);
  // Sends NOTIFY on the fence channel once no command is in flight; `said` follows, unless the session is
  // lost before. Only while live (else nothing happens).
  void say(std::string payload, steady_time now, actions& out);
  // Lets lingering channels go early, so that at most `most` are held.
  void shrink(std::size_t most, steady_time now, actions& out);

  void change(const settings& s);  // on reload; `listen.batch`, `self_check` and `secret` stay

  state now_in() const { return state_; }
  bool live() const { return state_ == state::live; }
  bool healthy() const { return healthy_; }
  const std::string& reason() const { return reason_; }  // why not healthy; a word
  const std::string& detail() const { return detail_; }  // and in the server's own words
  bool full() const { return full_; }                    // the last attempt found no connection to spare
  const listen_plan& plan() const { return plan_; }
  const session_info& session() const { return session_; }
  bool pooled() const { return pooled_; }
  int backend() const { return pid_; }  // as the server says; of the session that was checked last
  std::uint64_t reconnects() const { return sessions_ == 0 ? 0 : sessions_ - 1; }
  std::uint64_t attempts() const { return attempts_; }
  std::optional<steady_time> live_since() const { return live_since_; }
  std::optional<double> queue_usage() const { return queue_usage_; }

 private:
  enum class step {
    none,
    identity,
    system_id,
    settings,
    self_listen,
    self_notify,
    self_wait,
    outside,
    taking_back,
    probe,
    listen,
    say
  };

  void query(step s, std::string sql, std::size_t statements, steady_time now, actions& out);
  void next_step(step done, const query_result& r, steady_time now, actions& out);
  void identity_came(const query_result& r, steady_time now, actions& out);
  void refuse_too_long(actions& out);
  void notify_came(const query_result& r, steady_time now, actions& out);
  void probe_came(const query_result& r, steady_time now, actions& out);
  void listened(const query_result& r, steady_time now, actions& out);
  void check_came(steady_time now, actions& out);
  void listen_to_itself(steady_time now, actions& out);
  void refuse_pooler(const std::string& why, steady_time now, actions& out);
  std::string next_check();
  void go_live(steady_time now, actions& out);
  void idle_work(steady_time now, actions& out);
  void fail(std::string reason, std::string detail, steady_time now, actions& out);
  void end_session(std::string reason, std::string detail, steady_time now, actions& out);
  millis delay_after_session(steady_time now);
  void log_failure(const char* event, steady_time now, actions& out);
  void attempt(steady_time now, actions& out);
  void judge_health(actions& out);
  void unhealthy(std::string reason, std::string detail, actions& out);
  std::optional<steady_time> command_deadline() const;
  std::string settings_sql() const;
  // The SELECT in a transaction that is what it says here, whatever role and database have as defaults; it
  // leaves nothing behind for a pooler's next client.
  static std::string by_itself(const std::string& select);
  static constexpr std::size_t own_statements = 4;  // that it adds

  settings settings_;
  jitter jitter_;
  listen_plan plan_;
  state state_ = state::idle;
  step step_ = step::none;
  session_info session_;
  int pid_ = 0;  // as the server says; differs from session_.backend_pid behind a pooler
  bool pooled_ = false;
  bool ascii_ = false;
  bool counts_bytes_ = false;  // the database, of a channel's name as it is written here
  bool check_returned_ = false;
  bool outside_asked_ = false;
  bool outside_said_ = false;  // and committed
  std::string unproven_;       // why the pooler is refused
  std::string database_;
  std::uint32_t slots_ = 0;
  bool full_ = false;
  std::deque<std::string> to_say_;
  std::string check_payload_;
  std::unordered_set<std::string> recovering_;  // must be active again before health returns
  bool healthy_ = false;
  std::string reason_ = "connecting";
  std::string detail_;
  std::size_t statements_ = 0;  // of the command in flight
  std::optional<steady_time> down_since_;
  struct told {
    std::string kind;
    steady_time at;
  };
  std::vector<told> told_;    // why not, in this outage, and when the log was last told
  unsigned failures_ = 0;     // attempts that failed in a row
  unsigned short_lives_ = 0;  // live sessions in a row that died young
  steady_time retry_at_{};
  steady_time last_heard_{};
  steady_time sent_at_{};
  std::optional<steady_time> live_since_;  // set: this session reached live
  std::uint64_t sessions_ = 0;
  std::uint64_t attempts_ = 0;
  std::optional<double> queue_usage_;
};

}  // namespace pgwake
