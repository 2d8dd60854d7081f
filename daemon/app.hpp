#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <unordered_map>

#include "common/pg/connector.hpp"
#include "common/pg/session.hpp"
#include "daemon/acceptor.hpp"
#include "daemon/engine.hpp"
#include "daemon/metrics_server.hpp"
#include "daemon/options.hpp"
#include "daemon/service_manager.hpp"
#include "daemon/worker_io.hpp"

namespace pgwaked {

// The daemon: owns the event loop, the sockets, the session and the engine; feeds events to the engine and
// carries out its actions. One thread, plus libpq's connecting helper.
class app final : public worker_events, public pgwake::pg::session_events {
 public:
  // `given`: the command line, for reloads.
  app(loaded configuration, command_values given, log& out);
  ~app() override;

  // Opens the socket, serves until told to stop. 0: stopped. Throws std::runtime_error if it cannot start.
  int run();
  // An abandoned connect attempt may still hold a thread inside libpq: leave the process without destructors.
  bool leaves_a_thread() const { return connector_.busy() || second_.busy(); }

 private:
  void on_bytes(worker_id id, std::string_view data) override;
  void on_gone(worker_id id) override;
  outbox* on_writable(worker_id id) override { return engine_.open_outbox(id); }
  void on_written(worker_id id, std::size_t bytes) override {
    engine_.written(id, bytes, std::chrono::steady_clock::now());
  }
  bool may_read(worker_id id) override { return engine_.may_read(id); }

  void on_bytes() override;
  void on_result(pgwake::query_result result) override;
  void on_notification(int backend_pid, std::string_view channel, std::string_view payload) override;
  void on_lost(std::string reason) override;
  void on_turn_end() override;

  void welcome_worker(unique_fd fd, const peer& who);
  void carry_out();  // the engine's actions
  void carry_out(engine::action& a);
  void close_worker(const engine::close_worker& c);
  pgwake::pg::connect_settings connect_settings(std::string conninfo) const;
  void start_connecting();
  void notify_outside(const engine::notify_outside& wanted);
  void flush_touched();
  void settle();  // carry out, flush, arm
  void arm();
  void on_timer();
  void janitor();
  void give_memory_back();
  void on_signal(int number);
  void open_metrics();
  void wait_signal();
  void open_socket();
  std::string summary() const;
  void begin_drain(const std::string& why);  // `why`: a field for the log
  void control(worker_id asker, const pgwake::control_request& wish);
  void check_drained();
  void finish();
  void reload();
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
  socket_file socket_file_;
  acceptor acceptor_;
  std::optional<metrics_server> metrics_;
  pgwake::pg::connector connector_{loop_.get_executor()};
  pgwake::pg::connector second_{loop_.get_executor()};  // behind a pooler, for a moment
  std::shared_ptr<pgwake::pg::session> session_;
  std::unordered_map<worker_id, std::shared_ptr<worker_io>> workers_;
  std::chrono::steady_clock::time_point started_;
  std::optional<pgwake::steady_time> drain_until_;
  std::optional<pgwake::steady_time> last_refusal_logged_;
  std::uint64_t refused_ = 0;
  std::size_t backlog_ = 0;         // the most that outboxes held since the janitor came by
  std::size_t backlog_before_ = 0;  // and since memory was last given back
  bool activated_ = false;          // the socket is the service manager's
  bool carrying_out_ = false;
  bool stopping_ = false;
  bool second_under_way_ = false;
};

}  // namespace pgwaked
