#include <malloc.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "daemon/app/app.hpp"

// What the running hub looks after by itself, once a second: its place in the file system, its memory, what
// the log left out, the service manager. And the signals.
namespace pgwaked {

using namespace pgwake;
using steady = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds janitor_period{1'000};
constexpr std::chrono::milliseconds drain_look_period{20};
constexpr std::chrono::seconds reload_patience{5};
// A backlog of this size leaves memory behind that is worth giving back, once there is next to none any more.
constexpr std::size_t worth_giving_back = 8U << 20U;

// These would end the process without a word, and somebody who sends one means no harm: `kill -USR1` reopens
// other programs' logs.
constexpr std::array ignored_signals{SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT};

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : std::to_string(number);
}

}  // namespace

// Signals

void app::take_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) signals_.add(number);
  for (const int number : ignored_signals) signals_.add(number);
}

void app::wait_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    on_signal(number);
    wait_signal();
  });
}

void app::on_signal(int number) {
  const auto fields = log_fields().add("signal", signal_name(number));
  if (number == SIGHUP) return reload();
  if (std::find(ignored_signals.begin(), ignored_signals.end(), number) != ignored_signals.end()) {
    if (thinning_.admit("signal ignored", std::nullopt, steady::now()))
      log_.warning("signal ignored", fields);
    return;
  }
  if (drain_until_ || number == SIGQUIT) {  // asked twice, or for it: at once
    log_.info("stopping at once", fields);
    manager_.stopping(std::chrono::milliseconds(0));
    return finish();
  }
  begin_drain(fields);
}

// Now and then

void app::janitor() {
  if (!drain_until_) watch_socket();
  if (!drain_until_) watch_door();
  if (metrics_ && !stopping_) metrics_->look();
  if (reload_since_ && steady::now() - *reload_since_ >= reload_patience) {
    reload_since_.reset();
    log_.warning("reload still waits",
                 log_fields().add("detail",
                                  "a settings file, or a name of allow or socket_group, is not there yet; "
                                  "the old settings hold meanwhile"));
  }
  give_memory_back();
  tell_thinned(false);
  manager_.status(summary());
  manager_.beat();
  check_drained();
  const auto period = std::min(janitor_period, manager_.beat_period().value_or(janitor_period));
  janitor_.expires_after(drain_until_ ? drain_look_period : period);
  janitor_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) janitor();
  });
}

// Workers find the hub by its path: whatever is there instead of its socket is said once, and mended if it
// can be. Two hubs must not serve one path.
void app::watch_socket() {
  const auto& path = socket_file_.path();
  auto held = socket_file_.keep_lock();
  auto state = socket_file_.look();
  if (held == socket_file::hold::taken)
    return stop_for(
        "displaced",
        "another process has locked this path, so that new workers reach that one; this hub stops");
  std::string trouble;
  if (state == socket_file::state::gone && !activated_) {
    if (held == socket_file::hold::unlockable) {
      socket_file_.mend_folder();
      held = socket_file_.keep_lock();
    }
    trouble = "the socket file is gone";
  } else if (state != socket_file::state::ours) {
    trouble = state == socket_file::state::gone ? "the socket file is gone"
                                                : "the path leads to something else than the hub's socket";
  }
  if (trouble.empty() && held == socket_file::hold::unlockable) trouble = "the lock file cannot be made";
  if (!trouble.empty() && !activated_ && state != socket_file::state::ours) trouble = bind_again(trouble);
  const bool lasts = !trouble.empty() && !socket_trouble_.empty();
  if (lasts && !activated_ && manager_.makes_folder_of(path) && socket_file_.folder_is_gone())
    return stop_for(
        "socket folder removed",
        "the service manager makes the folder at each start, and this hub cannot: it stops, to be "
        "started again");
  if (trouble == socket_trouble_) return;
  socket_trouble_ = std::move(trouble);
  if (socket_trouble_.empty()) return log_.info("socket is back", log_fields().add("socket", path));
  log_.error("socket lost",
             log_fields()
                 .add("socket", path)
                 .add("reason", socket_trouble_)
                 .add("what_to_do", how_to_mend(activated_, state == socket_file::state::foreign)));
}

// No worker can reach this hub any more, and it cannot mend that.
void app::stop_for(std::string_view event, std::string_view detail) {
  log_.error(event, log_fields().add("socket", socket_file_.path()).add("detail", detail));
  exit_code_ = 1;
  begin_drain(log_fields().add("reason", event));
}

std::string app::how_to_mend(bool activated, bool foreign) {
  if (activated)
    return "it is the socket unit's, which makes it anew: systemctl stop pgwaked@NAME.socket "
           "pgwaked@NAME.service && systemctl start pgwaked@NAME.socket pgwaked@NAME.service";
  if (foreign)
    return "stop what listens there instead (ss -xlp names it) and remove its file; the hub tries to bind "
           "once a second";
  return "give the hub its folder back (its user must own it or may write there), or restart it; it tries "
         "once a second";
}

// What is wrong still; nothing once workers can connect again.
std::string app::bind_again(const std::string& trouble) {
  try {
    auto fresh = socket_file_.bind();
    acceptor_.stop();
    acceptor_.start(std::move(fresh));
    if (socket_trouble_.empty())  // else it is said that it is back
      log_.warning("socket bound again",
                   log_fields().add("socket", socket_file_.path()).add("reason", trouble));
    return {};
  } catch (const std::exception& e) {
    return trouble + "; " + e.what();
  }
}

// How many lines were left out, by event and user.
void app::tell_thinned(bool all) {
  for (const auto& left_out : thinning_.take(steady::now(), all)) {
    log_fields fields;
    fields.add("of", left_out.event).add("lines", left_out.lines);
    if (left_out.uid) fields.add("uid", *left_out.uid);
    log_.warning("log lines left out", fields);
  }
}

// The C library keeps what was freed, hundreds of megabytes after a worker or two that did not read.
void app::give_memory_back() {
  const auto lately = std::exchange(backlog_, engine_.the_hub().held_bytes());
  backlog_before_ = std::max(backlog_before_, lately);
  if (backlog_before_ - lately < worth_giving_back || lately > backlog_before_ / 4) return;
  backlog_before_ = lately;
  malloc_trim(0);
}

// One line for the service manager's status.
std::string app::summary() const {
  const auto& up = engine_.the_upstream();
  auto counts = std::to_string(engine_.workers()) + " workers, " +
                std::to_string(engine_.the_hub().channel_count()) + " channels";
  if (!socket_trouble_.empty()) counts += "; no worker can connect: " + socket_trouble_;
  if (engine_.draining()) return "draining, " + counts;
  if (up.healthy()) return "healthy, " + counts;
  return "not healthy (" + up.reason() + "), " + counts + (up.detail().empty() ? "" : ": " + up.detail());
}

}  // namespace pgwaked
