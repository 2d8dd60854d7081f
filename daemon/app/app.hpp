#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <memory>
#include <unordered_map>

#include "common/pg/connector.hpp"
#include "common/pg/session.hpp"
#include "daemon/app/attempt_tally.hpp"
#include "daemon/app/stats.hpp"
#include "daemon/core/engine.hpp"
#include "daemon/core/log_thinning.hpp"
#include "daemon/io/acceptor.hpp"
#include "daemon/io/farewell.hpp"
#include "daemon/io/helper_thread.hpp"
#include "daemon/io/listening_path.hpp"
#include "daemon/io/service_manager.hpp"
#include "daemon/io/worker_io.hpp"
#include "daemon/metrics/server.hpp"
#include "daemon/settings/options.hpp"

namespace pgwaked {

// The daemon: owns the event loop, the sockets, the session and the engine; feeds events to the engine and
// carries out its actions. One thread, plus libpq's connecting helper.
class app final : public worker_events, public pgwake::pg::session_events {
 public:
  // `given`: the command line, for reloads.
  app(loaded configuration, command_values given, log& out);
  ~app() override;

  // Opens the socket, serves until told to stop. The exit code: 0, or 1 if another hub took its place. Throws
  // std::runtime_error if it cannot start.
  int run();
  // An abandoned connect attempt or reload may still hold a thread: leave the process without destructors.
  bool leaves_a_thread() const { return connector_.busy() || second_.busy() || reader_.busy(); }

 private:
  void on_bytes(worker_id id, std::string_view data) override;
  void on_gone(worker_id id) override;
  outbox* on_writable(worker_id id) override { return engine_.open_outbox(id); }
  void on_written(worker_id id, std::size_t bytes) override {
    engine_.written(id, bytes, std::chrono::steady_clock::now());
    if (engine_.busy()) post_turn();
    if (engine_.stalled(id)) resume_later(id);
  }
  bool may_read(worker_id id) override { return engine_.may_read(id); }

  void on_bytes() override;
  void on_result(pgwake::query_result result) override;
  void on_notification(int backend_pid, std::string_view channel, std::string_view payload) override;
  void on_lost(std::string reason) override;
  void on_turn_end() override;

  void welcome_worker(unique_fd fd, const peer& who);
  void post_turn();
  void turn();
  void make_stats();
  void keep(worker_id id, unique_fd fd);
  // The front door: app_door.cpp
  void open_door();
  void open_shut_doors();
  void welcome_at_door(unique_fd fd, const peer& who, bool shut);
  void watch_door();
  void close_door();
  void resume_later(worker_id id);
  // Every call that changes the engine is made in one of these two, so that none of its actions is left for
  // later. In the second, within a read pass of the session, outboxes are written when the pass is over.
  template <class Call>
  void enter(Call call) {
    call(std::chrono::steady_clock::now());
    settle();
  }
  template <class Call>
  void enter_in_pass(Call call) {
    call(std::chrono::steady_clock::now());
    carry_out();
  }
  void carry_out();  // the engine's actions
  void carry_out(engine::action& a);
  void close_worker(const engine::close_worker& c);
  pgwake::pg::connect_settings connect_settings() const;
  void start_connecting();
  void notify_outside(const engine::notify_outside& wanted);
  void flush_touched();
  void settle();  // carry out, flush, arm
  void arm();
  void on_timer();
  void janitor();
  void watch_socket();
  void stop_for(std::string_view event, std::string_view detail);
  void give_memory_back();
  void tell_thinned(bool all);
  void on_signal(int number);
  void open_metrics();
  void take_signals();
  void wait_signal();
  void tell_database();
  void open_socket();
  void tell_passed(const std::string& path);
  std::string summary() const;
  void begin_drain(pgwake::log_fields why);
  void control(worker_id asker, const pgwake::control_request& wish);
  void check_drained();
  void finish();
  void set_log_level(log_level level);
  void reload();
  void take_settings(const boost::system::result<loaded, usage_error>& fresh);
  void refuse_reload(const std::vector<std::string>& why);
  void take_metrics_token(const loaded& fresh);
  void complain_refused(const peer& who, const pgwake::bye& why);

  loaded loaded_;
  command_values given_;
  log& log_;
  boost::asio::io_context loop_{1};
  boost::asio::signal_set signals_{loop_};
  boost::asio::steady_timer timer_{loop_};
  boost::asio::steady_timer janitor_{loop_};
  std::optional<pgwake::steady_time> armed_;
  std::uint64_t nofile_;
  engine engine_;
  service_manager manager_;
  listening_path socket_;
  std::optional<listening_path> door_;
  std::list<acceptor> shut_doors_;  // sockets of a front door that were passed and are not this one's
  farewell farewell_{loop_.get_executor()};
  std::optional<metrics_server> metrics_;
  pgwake::pg::connector connector_{loop_.get_executor()};
  pgwake::pg::connector second_{loop_.get_executor()};  // behind a pooler, for a moment
  helper_thread reader_{loop_.get_executor()};          // of changed settings
  std::shared_ptr<pgwake::pg::session> session_;
  std::unordered_map<worker_id, std::shared_ptr<worker_io>> workers_;
  std::chrono::steady_clock::time_point started_;
  std::optional<pgwake::steady_time> drain_until_;
  log_thinning thinning_;
  std::uint64_t refused_ = 0;
  reload_figures reloads_;
  attempt_tally attempts_;
  std::optional<double> certificate_ends_;  // the server's, in seconds since 1970
  std::size_t backlog_ = 0;                 // the most that outboxes held since the janitor came by
  std::size_t backlog_before_ = 0;          // and since memory was last given back
  std::optional<stats_maker> stats_;        // the answer that is being made
  bool turn_posted_ = false;
  bool carrying_out_ = false;
  bool stopping_ = false;
  std::string warned_;  // about the settings, by the last attempt that had something to say
  std::optional<pgwake::steady_time> reload_since_;  // until its slowness was said
  bool reload_again_ = false;                        // asked for while one was under way
  int exit_code_ = 0;
};

}  // namespace pgwaked
