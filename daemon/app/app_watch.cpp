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

// Two hubs must not serve one path.
void app::watch_socket() {
  const bool was_lost = !socket_.trouble().empty();
  const auto now = socket_.look();
  if (now == listening_path::state::displaced)
    return stop_for(
        "displaced",
        "another process has locked this path, so that new workers reach that one; this hub stops");
  const bool lasts = was_lost && now == listening_path::state::lost;
  if (lasts && !socket_.activated() && manager_.makes_folder_of(socket_.path()) && socket_.folder_is_gone())
    stop_for("socket folder removed",
             "the service manager makes the folder at each start, and this hub cannot: it stops, to be "
             "started again");
}

// No worker can reach this hub any more, and it cannot mend that.
void app::stop_for(std::string_view event, std::string_view detail) {
  log_.error(event, log_fields().add("socket", socket_.path()).add("detail", detail));
  exit_code_ = 1;
  begin_drain(log_fields().add("reason", event));
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
  if (!socket_.trouble().empty()) counts += "; no worker can connect: " + socket_.trouble();
  if (engine_.draining()) return "draining, " + counts;
  if (up.healthy()) return "healthy, " + counts;
  return "not healthy (" + up.reason() + "), " + counts + (up.detail().empty() ? "" : ": " + up.detail());
}

}  // namespace pgwaked
