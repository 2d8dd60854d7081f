#include "daemon/app.hpp"

#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "common/log_field.hpp"
#include "common/pg/conninfo.hpp"
#include "daemon/engine_config.hpp"
#include "daemon/machine.hpp"
#include "daemon/stats.hpp"

namespace pgwaked {

using namespace pgwake;
using steady = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds janitor_period{1'000};
constexpr std::chrono::milliseconds drain_look_period{20};
// A backlog of this size leaves memory behind that is worth giving back, once there is next to none any more.
constexpr std::size_t worth_giving_back = 8U << 20U;
constexpr std::size_t next_to_none = 1U << 20U;
constexpr std::chrono::seconds stop_reserve{10};  // for what comes after the drain
constexpr std::chrono::seconds refusal_log_period{5};

engine::config first_config(const settings& s, std::uint64_t nofile) {
  auto c = engine_config(s, nofile);
  c.hub_uuid = random_uuid();
  c.upstream.self_check = random_hex();
  return c;
}

}  // namespace

app::app(loaded configuration, command_values given, log& out)
    : loaded_(std::move(configuration)),
      given_(std::move(given)),
      log_(out),
      nofile_(descriptor_limit()),
      engine_(first_config(loaded_.values, nofile_), random_word()),
      socket_file_({loaded_.values.socket, loaded_.values.socket_mode, loaded_.values.socket_gid}),
      acceptor_(loop_.get_executor(), out,
                [this](unique_fd fd, const peer& who) { welcome_worker(std::move(fd), who); }),
      started_(steady::now()) {}

app::~app() = default;

int app::run() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signals_.add(number);
  open_socket();
  open_metrics();
  for (const auto& w : loaded_.warnings) log_.warning("configuration", w);
  if (engine_.settings().max_workers < loaded_.values.max_workers)
    log_.warning("max_workers lowered",
                 "max_workers=" + std::to_string(engine_.settings().max_workers) +
                     " descriptors=" + std::to_string(nofile_) +
                     " what_to_do=\"raise the descriptor limit (LimitNOFILE, ulimit -n)\"");
  log_.info("started", "version=" + engine_.settings().version + " pid=" + std::to_string(getpid()) +
                           " socket=" + socket_file_.path());
  engine_.start(steady::now());
  wait_signal();
  manager_.ready();  // the socket is open; whether PostgreSQL is up is another matter
  janitor();
  settle();
  loop_.run();
  log_.info("stopped");
  return 0;
}

void app::open_socket() {
  auto passed = manager_.take_socket(loaded_.values.socket);
  activated_ = static_cast<bool>(passed);
  socket_file_.lock();
  acceptor_.start(activated_ ? std::move(passed) : socket_file_.bind());
  if (activated_ && !(loaded_.is_default("socket_mode") && loaded_.is_default("socket_group")))
    log_.warning("socket_mode and socket_group not used",
                 "what_to_do=\"the socket was passed: set SocketMode= and SocketGroup= in the socket unit\"");
}

void app::open_metrics() {
  if (loaded_.values.metrics_listen.kind == metrics_address::family::off) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto start = std::chrono::duration<double>(now).count();
  metrics_server::content content;
  content.metrics = [this, start](metrics_format format) {
    return metrics_text({engine_, steady::now(), started_, refused_, figures_of_this_process(start)}, format);
  };
  content.unhealthy = [this] { return unhealthy_because(engine_); };
  metrics_.emplace(loop_.get_executor(), log_, loaded_.values, std::move(content));
  metrics_->start();
}

void app::wait_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    on_signal(number);
    wait_signal();
  });
}

void app::on_signal(int number) {
  if (number == SIGHUP) {
    manager_.reloading();
    reload();
    return manager_.ready();
  }
  if (drain_until_) return finish();  // asked twice: at once
  begin_drain("signal=" + std::to_string(number));
}

// Workers

void app::welcome_worker(unique_fd fd, const peer& who) {
  if (const auto why = engine_.refusal(who)) {
    std::string frame;
    encode(frame, from_hub{*why});
    send(fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return complain_refused(who, *why);
  }
  const auto id = engine_.joined(who, random_hex(), steady::now());
  const auto io = std::make_shared<worker_io>(loop_.get_executor(), fd.release(), id, *this);
  workers_.emplace(id, io);
  io->start();
}

void app::complain_refused(const peer& who, const bye& why) {
  ++refused_;
  const auto now = steady::now();
  if (last_refusal_logged_ && now - *last_refusal_logged_ < refusal_log_period) return;
  last_refusal_logged_ = now;
  log_.warning("worker refused", "pid=" + std::to_string(who.pid) + " uid=" + std::to_string(who.uid) +
                                     " code=" + std::string(to_string(why.why)) + " refused=" +
                                     std::to_string(refused_) + " reason=" + log_field(why.reason));
}

void app::on_bytes(worker_id id, std::string_view data) {
  engine_.bytes(id, data, steady::now());
  settle();
}

void app::on_gone(worker_id id) {
  workers_.erase(id);
  engine_.left(id, steady::now());
  settle();
}

void app::close_worker(const engine::close_worker& c) {
  const auto it = workers_.find(c.worker);
  if (it == workers_.end()) return;
  const auto io = it->second;
  if (c.flush) io->flush();
  workers_.erase(c.worker);
  io->close();
  if (!c.event.empty()) log_.warning(c.event, c.fields);
  engine_.left(c.worker, steady::now());
}

// The session

pg::connect_settings app::connect_settings(std::string conninfo) const {
  pg::connect_settings s;
  s.conninfo = std::move(conninfo);
  s.application_name =
      loaded_.values.application_name.empty() ? "pgwaked@" + host_name() : loaded_.values.application_name;
  s.connect_timeout = loaded_.values.connect_timeout;
  return s;
}

void app::start_connecting() {
  const auto conninfo = read_database(loaded_.values, real_surroundings());
  if (!conninfo) {
    const connect_failure failure{conninfo.error().message, false};
    boost::asio::post(loop_, [this, failure] {
      engine_.connect_failed(failure, steady::now());
      settle();
    });
    return;
  }
  connector_.start(connect_settings(*conninfo), [this](pg::connector::outcome outcome) {
    if (stopping_) return;
    if (outcome.conn) {
      session_ = pg::session::open(loop_.get_executor(), std::move(outcome.conn), *this);
      engine_.connected(outcome.info, steady::now());
    } else {
      engine_.connect_failed(outcome.failure, steady::now());
    }
    settle();
  });
}

void app::notify_outside(const engine::notify_outside& wanted) {
  const auto told = [this, payload = wanted.payload](const std::string& trouble) {
    if (stopping_) return;
    engine_.notified_outside(payload, trouble, steady::now());
    settle();
  };
  const auto conninfo = read_database(loaded_.values, real_surroundings());
  if (!conninfo || second_under_way_) {
    const auto why = conninfo ? "the one before it still waits" : conninfo.error().message;
    return boost::asio::post(loop_, [told, why] { told(why); });
  }
  auto s = connect_settings(*conninfo);
  s.application_name = "pgwaked-check@" + host_name();
  s.first = wanted.sql;
  second_.start(std::move(s), [this, told](const pg::connector::outcome& outcome) {
    second_under_way_ = false;
    told(outcome.failure.message);
  });
  second_under_way_ = true;
}

void app::on_bytes() { engine_.heard(steady::now()); }

void app::on_result(query_result result) {
  engine_.result(result, steady::now());
  carry_out();
}

void app::on_notification(int backend_pid, std::string_view channel, std::string_view payload) {
  engine_.notification(channel, payload, backend_pid, steady::now());
  carry_out();
}

void app::on_lost(std::string reason) {
  session_.reset();
  engine_.session_lost(std::move(reason), steady::now());
  settle();
}

void app::on_turn_end() { settle(); }

// Actions

void app::settle() {
  carry_out();
  backlog_ = std::max(backlog_, engine_.the_hub().outbox_bytes());
  flush_touched();
  carry_out();
  arm();
}

void app::carry_out() {
  if (carrying_out_) return;
  carrying_out_ = true;
  while (!engine_.actions().empty()) {
    auto actions = std::exchange(engine_.actions(), {});
    for (auto& a : actions) carry_out(a);
  }
  carrying_out_ = false;
}

void app::carry_out(engine::action& a) {
  std::visit(
      [this](auto& x) {
        using kind = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<kind, engine::connect>) {
          start_connecting();
        } else if constexpr (std::is_same_v<kind, engine::send>) {
          if (session_) session_->query(std::move(x.sql));
        } else if constexpr (std::is_same_v<kind, engine::notify_outside>) {
          notify_outside(x);
        } else if constexpr (std::is_same_v<kind, engine::close_session>) {
          if (session_) session_->close();
          session_.reset();
        } else if constexpr (std::is_same_v<kind, engine::close_worker>) {
          close_worker(x);
        } else if constexpr (std::is_same_v<kind, engine::make_stats>) {
          const auto it = engine_.members().find(x.worker);
          if (it == engine_.members().end()) return;
          const auto uid = it->second.who.uid;
          const auto now = steady::now();
          const stats_view view{uid == 0 || uid == geteuid(), uid, x.worker, started_, refused_};
          engine_.answer_stats(x.worker, stats_json(engine_, view, now), now);
        } else if constexpr (std::is_same_v<kind, engine::do_control>) {
          control(x.worker, x.control);
        } else {
          if (x.warning)
            log_.warning(x.event, x.fields);
          else
            log_.info(x.event, x.fields);
        }
      },
      a);
}

void app::flush_touched() {
  auto& touched = engine_.touched();
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const auto it = workers_.find(touched[i]);
    if (it == workers_.end()) continue;
    const auto io = it->second;  // it may go while being flushed
    io->flush();
  }
  touched.clear();
}

// Time

void app::arm() {
  const auto at = engine_.deadline();
  if (!at || (armed_ && *armed_ <= *at)) return;
  armed_ = at;
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) on_timer();
  });
}

void app::on_timer() {
  armed_.reset();
  const auto session = session_;
  const bool quiet = !session || !session->read_pass();
  engine_.tick(steady::now(), quiet);
  settle();
}

// What needs a look now and then: the socket file, and whether a drain is over.
void app::janitor() {
  if (!drain_until_ && !activated_ && socket_file_.look() == socket_file::state::gone) {
    log_.warning("socket file gone, binding again", "socket=" + socket_file_.path());
    try {
      auto fresh = socket_file_.bind();
      acceptor_.stop();
      acceptor_.start(std::move(fresh));
    } catch (const std::exception& e) {
      log_.error("cannot bind again", e.what());
    }
  }
  if (metrics_ && !stopping_) metrics_->look();
  give_memory_back();
  manager_.status(summary());
  manager_.beat();
  check_drained();
  const auto period = std::min(janitor_period, manager_.beat_period().value_or(janitor_period));
  janitor_.expires_after(drain_until_ ? drain_look_period : period);
  janitor_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) janitor();
  });
}

// The C library keeps what was freed, hundreds of megabytes after a worker or two that did not read.
void app::give_memory_back() {
  const auto lately = std::exchange(backlog_, engine_.the_hub().outbox_bytes());
  if (lately > next_to_none) {
    backlog_before_ = std::max(backlog_before_, lately);
  } else if (std::exchange(backlog_before_, 0) >= worth_giving_back) {
    malloc_trim(0);
  }
}

// Stopping

void app::begin_drain(const std::string& why) {
  const auto grace = loaded_.values.drain_grace;
  log_.info("draining", why + " workers=" + std::to_string(workers_.size()) +
                            " grace_ms=" + std::to_string(grace.count()));
  drain_until_ = steady::now() + grace;
  manager_.stopping(grace + stop_reserve);
  acceptor_.stop(activated_ ? acceptor::waiting::leave : acceptor::waiting::take);
  socket_file_.remove();
  engine_.drain(grace, steady::now());
  settle();
  janitor();
}

void app::check_drained() {
  if (!drain_until_ || stopping_) return;
  if (engine_.drained() || steady::now() >= *drain_until_) finish();
}

void app::finish() {
  stopping_ = true;
  engine_.stop(steady::now());
  settle();
  for (const auto& [id, io] : workers_) io->close();
  workers_.clear();
  if (metrics_) metrics_->stop();
  loop_.stop();
}

// One line for the service manager's status.
std::string app::summary() const {
  const auto& up = engine_.the_upstream();
  const auto counts = std::to_string(workers_.size()) + " workers, " +
                      std::to_string(engine_.the_hub().channel_count()) + " channels";
  if (engine_.draining()) return "draining, " + counts;
  if (up.healthy()) return "healthy, " + counts;
  return "not healthy (" + up.reason() + "), " + counts + (up.detail().empty() ? "" : ": " + up.detail());
}

}  // namespace pgwaked
