#include "daemon/app/app.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "common/census.hpp"
#include "common/os/host_name.hpp"
#include "common/os/random_word.hpp"
#include "common/pg/conninfo.hpp"
#include "daemon/app/engine_config.hpp"
#include "daemon/app/machine.hpp"
#include "daemon/app/memory_bound.hpp"
#include "daemon/app/stats.hpp"

namespace pgwaked {

using namespace pgwake;
using steady = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds stop_reserve{10};  // for what comes after the drain

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

engine::config first_config(const settings& s, std::uint64_t nofile) {
  auto c = engine_config(s, nofile);
  c.hub_uuid = random_uuid();
  c.upstream.self_check = random_hex();
  c.upstream.secret = random_word;
  return c;
}

log_level level_of(engine::note::level how) {
  using level = engine::note::level;
  return how == level::trace     ? log_level::trace
         : how == level::debug   ? log_level::debug
         : how == level::warning ? log_level::warning
                                 : log_level::info;
}

}  // namespace

app::app(loaded configuration, command_values given, log& out)
    : loaded_(std::move(configuration)),
      given_(std::move(given)),
      log_(out),
      nofile_(descriptor_limit()),
      engine_(first_config(loaded_.values, nofile_), random_word()),
      socket_(loop_.get_executor(), out, "socket",
              {loaded_.values.socket, loaded_.values.socket_mode, loaded_.values.socket_gid},
              [this](unique_fd fd, const peer& who) { welcome_worker(std::move(fd), who); }),
      started_(steady::now()) {
  set_log_level(loaded_.values.log_level);
}

app::~app() = default;

int app::run() {
  take_signals();
  open_socket();
  open_door();
  open_shut_doors();
  open_metrics();
  if (const auto limit = memory_limit(); limit && *limit < memory_bound(loaded_.values))
    loaded_.warnings.push_back(
        "memory is limited to " + std::to_string(*limit >> 20U) +
        " MiB, but the settings let this hub take " + std::to_string(memory_bound(loaded_.values) >> 20U) +
        " MiB at worst, and then it is killed; raise MemoryHigh= and MemoryMax= (or the container's "
        "limit), or lower max_workers and outbox_total_max_bytes");
  for (const auto& w : loaded_.warnings) log_.warning("configuration", log_fields().add("detail", w));
  if (engine_.settings().max_workers < loaded_.values.max_workers)
    log_.warning("max_workers lowered",
                 log_fields()
                     .add("max_workers", engine_.settings().max_workers)
                     .add("descriptors", nofile_)
                     .add("what_to_do", "raise the descriptor limit (LimitNOFILE, ulimit -n)"));
  log_.info("started", log_fields()
                           .add("version", engine_.settings().version)
                           .add("pid", getpid())
                           .add("socket", socket_.path()));
  tell_database();
  enter([&](steady_time now) {
    engine_.start(now);
    wait_signal();
    manager_.ready();  // the socket is open; whether PostgreSQL is up is another matter
    janitor();
  });
  loop_.run();
  log_.info("stopped");
  return exit_code_;
}

// Without any setting libpq serves the database of this user's name on this host, which is seldom meant.
void app::tell_database() {
  if (!loaded_.values.database.empty() || !loaded_.values.database_file.empty()) return;
  constexpr std::array variables{"PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGUSER", "PGPORT"};
  const bool given = std::any_of(variables.begin(), variables.end(),
                                 [](const char* name) { return std::getenv(name) != nullptr; });
  if (given)
    return log_.info("no database given",
                     log_fields().add("detail", "the environment's PG variables lead to it, as with psql"));
  log_.warning(
      "no database given",
      log_fields()
          .add("detail", "libpq's defaults lead to it: the database of this user's name, on this host")
          .add("what_to_do",
               "set database or database_file (--database 'host=... dbname=...', PGWAKE_DATABASE)"));
}

void app::open_socket() {
  manager_.look_at_sockets(loaded_.values.socket);
  socket_.open(manager_.take_socket(loaded_.values.socket));
  if (socket_.activated()) tell_passed(socket_.path());
}

void app::tell_passed(const std::string& path) {
  if (loaded_.is_default("socket_mode") && loaded_.is_default("socket_group")) return;
  log_.warning(
      "socket_mode and socket_group not used",
      log_fields()
          .add("socket", path)
          .add("what_to_do", "this socket was passed: set SocketMode= and SocketGroup= in the socket unit"));
}

void app::open_metrics() {
  if (loaded_.values.metrics_listen.kind == metrics_address::family::off) return;
  const auto start = seconds_since_1970();
  metrics_server::content content;
  content.metrics = [this, start](metrics_format format) {
    return metrics_text({.hub = engine_,
                         .now = steady::now(),
                         .started = started_,
                         .refused = refused_,
                         .process = figures_of_this_process(start),
                         .log_dropped = log_.dropped(),
                         .reloads = reloads_,
                         .host = host_name(),
                         .certificate_ends = certificate_ends_,
                         .failed_attempts = attempts_.failed()},
                        format);
  };
  content.unhealthy = [this] { return unhealthy_because(engine_); };
  metrics_.emplace(loop_.get_executor(), log_, loaded_.values, loaded_.metrics_token, std::move(content));
  metrics_->start();
}

// Workers

void app::welcome_worker(unique_fd fd, const peer& who) {
  if (const auto why = engine_.refusal(who)) {
    std::string frame;
    encode(frame, from_hub{*why});
    send(fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return complain_refused(who, *why);
  }
  enter([&](steady_time now) { keep(engine_.joined(who, random_hex(), now), std::move(fd)); });
}

void app::keep(worker_id id, unique_fd fd) {
  const auto io = std::make_shared<worker_io>(loop_.get_executor(), fd.release(), id, *this);
  workers_.emplace(id, io);
  io->start();
}

void app::complain_refused(const peer& who, const bye& why) {
  ++refused_;
  if (!thinning_.admit("worker refused", who.uid, steady::now())) return;
  log_.warning("worker refused", log_fields()
                                     .add("pid", who.pid)
                                     .add("uid", who.uid)
                                     .add("code", to_string(why.why))
                                     .add("refused", refused_)
                                     .add("reason", why.reason));
}

void app::on_bytes(worker_id id, std::string_view data) {
  enter([&](steady_time now) { engine_.bytes(id, data, now); });
  post_turn();
}

// A turn ends when all that was ready had its say. Is there more than a turn takes, PostgreSQL comes first.
void app::post_turn() {
  if (std::exchange(turn_posted_, true)) return;
  boost::asio::post(loop_, [this] { turn(); });
}

void app::turn() {
  turn_posted_ = false;
  if (engine_.busy())
    if (const auto session = session_) session->read_pass();
  enter([&](steady_time now) { engine_.turn(now); });
  for (const auto id : std::exchange(engine_.readable(), {}))
    if (const auto it = workers_.find(id); it != workers_.end()) {
      const auto io = it->second;
      io->resume();
    }
  if (engine_.busy()) post_turn();
}

// A slice of it at a time, so that nobody waits for a long one.
void app::make_stats() {
  if (!stats_ || stopping_) return;
  if (!stats_->step(steady::now())) return boost::asio::post(loop_, [this] { make_stats(); });
  auto json = stats_->take();
  stats_.reset();
  enter([&](steady_time now) { engine_.answer_stats(std::move(json), now); });
}

void app::on_gone(worker_id id) {
  workers_.erase(id);
  enter([&](steady_time now) { engine_.left(id, now); });
}

void app::close_worker(const engine::close_worker& c) {
  const auto it = workers_.find(c.worker);
  if (it == workers_.end()) return;
  const auto io = it->second;
  if (c.flush) io->flush();
  workers_.erase(c.worker);
  if (c.politely && !stopping_)
    farewell_.take(unique_fd(io->release()));
  else
    io->close();
  if (c.refused) ++refused_;
  if (!c.event.empty() && thinning_.admit(c.event, c.uid, steady::now())) log_.warning(c.event, c.fields);
  engine_.left(c.worker, steady::now());  // while the engine's actions are being carried out
}

// The session

// The connection string's file may be anything, a FIFO or on a mount that hangs: the connecting
// thread reads it.
pg::connect_settings app::connect_settings() const {
  pg::connect_settings s;
  s.read = [values = loaded_.values](std::string& fault) {
    auto conninfo = read_database(values, real_surroundings());
    if (conninfo) return std::move(*conninfo);
    fault = conninfo.error().message;
    return std::string();
  };
  s.application_name = loaded_.values.application_name.empty()
                           ? std::string(hub_prefix) + census_host(host_name())
                           : loaded_.values.application_name;
  s.connect_timeout = loaded_.values.connect_timeout;
  return s;
}

void app::start_connecting() {
  connector_.start(connect_settings(), [this](pg::connector::outcome outcome) {
    if (stopping_) return;
    if (!outcome.warning.empty() && outcome.warning != warned_)
      log_.warning("connecting", log_fields().add("warning", outcome.warning));
    warned_ = outcome.warning;
    if (!outcome.conn) return enter([&](steady_time now) { engine_.connect_failed(outcome.failure, now); });
    certificate_ends_.reset();
    if (const auto left = outcome.certificate_ends_in_s)
      certificate_ends_ = seconds_since_1970() + static_cast<double>(*left);
    session_ = pg::session::open(loop_.get_executor(), std::move(outcome.conn), *this);
    enter([&](steady_time now) { engine_.connected(outcome.info, now); });
  });
}

void app::notify_outside(const engine::notify_outside& wanted) {
  auto s = connect_settings();
  s.application_name = std::string(check_prefix) + census_host(host_name());
  s.first = wanted.sql;
  second_.start(std::move(s), [this, payload = wanted.payload](const pg::connector::outcome& outcome) {
    if (stopping_) return;
    enter([&](steady_time now) { engine_.notified_outside(payload, outcome.failure.message, now); });
  });
}

void app::on_bytes() { engine_.heard(steady::now()); }

void app::on_result(query_result result) {
  enter_in_pass([&](steady_time now) { engine_.result(result, now); });
}

void app::on_notification(int backend_pid, std::string_view channel, std::string_view payload) {
  enter_in_pass([&](steady_time now) { engine_.notification(channel, payload, backend_pid, now); });
}

void app::on_lost(std::string reason) {
  session_.reset();
  enter([&](steady_time now) { engine_.session_lost(std::move(reason), now); });
}

void app::on_turn_end() { settle(); }

// Actions

void app::settle() {
  carry_out();
  backlog_ = std::max(backlog_, engine_.the_hub().held_bytes());
  flush_touched();
  carry_out();
  attempts_.look(engine_.the_upstream());
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
          if (session_) connector_.cancel_later(session_->give_up());
          session_.reset();
        } else if constexpr (std::is_same_v<kind, engine::close_worker>) {
          close_worker(x);
        } else if constexpr (std::is_same_v<kind, engine::make_stats>) {
          stats_.emplace(engine_, stats_view{x.eyes, std::move(x.askers), started_, refused_});
          boost::asio::post(loop_, [this] { make_stats(); });
        } else if constexpr (std::is_same_v<kind, engine::do_control>) {
          control(x.worker, x.control);
        } else {
          const bool always = x.how <= engine::note::level::debug;  // asked for by the operator
          if (!always && !thinning_.admit(x.event, std::nullopt, steady::now())) return;
          log_.write(level_of(x.how), x.event, x.fields);
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
  enter([&](steady_time now) { engine_.tick(now, quiet); });
}

// Stopping

void app::begin_drain(log_fields why) {
  const auto grace = loaded_.values.drain_grace;
  log_.info("draining", why.add("workers", workers_.size()).add("grace_ms", grace.count()));
  drain_until_ = steady::now() + grace;
  manager_.stopping(grace + stop_reserve);
  socket_.close();
  close_door();
  enter([&](steady_time now) { engine_.drain(grace, now); });
  janitor();
}

void app::check_drained() {
  if (!drain_until_ || stopping_) return;
  if (engine_.drained() || steady::now() >= *drain_until_) finish();
}

void app::finish() {
  stopping_ = true;
  enter([&](steady_time now) { engine_.stop(now); });
  for (const auto& [id, io] : workers_) io->close();
  workers_.clear();
  if (metrics_) metrics_->stop();
  tell_thinned(true);
  loop_.stop();
}

}  // namespace pgwaked
