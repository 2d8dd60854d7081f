#include "client/src/shell/worker.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <iterator>
#include <system_error>
#include <type_traits>
#include <utility>

#include "client/src/shell/loop_descriptors.hpp"
#include "common/census.hpp"
#include "common/os/host_name.hpp"
#include "common/os/only_hub.hpp"
#include "common/os/random_word.hpp"
#include "common/os/signals_blocked.hpp"

namespace pgwake::client {
namespace {

constexpr timespec after_trouble{0, 100'000'000};
constexpr millis long_wait{1'000};  // at which asio's own wait for a deadline looks up again and again

steady_time clock_now() { return std::chrono::steady_clock::now(); }

std::string program() {
  std::array<char, 32> name{};  // the process's, not the calling thread's
  unique_fd fd(::open("/proc/self/comm", O_RDONLY | O_CLOEXEC));
  auto n = fd ? ::read(fd.get(), name.data(), name.size() - 1) : 0;
  while (n > 0 && name[static_cast<std::size_t>(n - 1)] == '\n') --n;
  return n > 0 ? std::string(name.data(), static_cast<std::size_t>(n)) : "";
}

// What else would look up names, open files and start threads, with the name, rights and priority of
// the application's thread.
bool quick(const machine_action& a) {
  return !std::holds_alternative<connect_hub>(a) && !std::holds_alternative<open_session>(a) &&
         !std::holds_alternative<acquire_slot>(a) && !std::holds_alternative<notify_outside>(a);
}

settings completed(settings s) {
  if (s.application_name.empty())
    s.application_name = std::string(fallback_prefix) + census_host(host_name());
  if (s.failover.name.empty()) s.failover.name = program();
  if (const auto db = pg::database_of(s.database); !db.empty()) s.failover.database = db;
  s.failover.secret = s.upstream.secret = random_word;
  s.upstream.self_check = random_hex();
  return s;
}

}  // namespace

worker::worker(const settings& s, std::vector<std::string> kept)
    : settings_(completed(s)),
      box_(settings_.queue_max_bytes, *this),
      commands_(loop_),
      timer_(loop_),
      rouse_(loop_),
      hub_(loop_, *this),
      own_(loop_, *this, {settings_.database, settings_.application_name, settings_.connect_timeout}),
      slots_(settings_.fallback_dir),
      kept_(std::move(kept)),
      random_(random_word()) {
  sem_init(&at_rest_, 0, 0);
  sem_init(&go_on_, 0, 0);
  box_.expect_fork_gaps(kept_);
  commands_.assign(box_.command_descriptor());
  loop_descriptors_ = loop_descriptors(loop_);
  const signals_blocked guard;
  fork_guard::add(*this);  // before the thread opens anything: another one may fork
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    fork_guard::remove(*this);
    commands_.release();
    throw;
  }
}

worker::~worker() {
  fork_guard::remove(*this);
  if (motion_.exchange(motion::running) == motion::resting) sem_post(&go_on_);  // the process is exiting
  box_.chair().let_go();
  box_.close();
  thread_.join();
  commands_.release();
  sem_destroy(&at_rest_);
  sem_destroy(&go_on_);
}

// The thread

void worker::run() {
  pthread_setname_np(pthread_self(), "pgwake");
  for (bool begun = false;;) {
    try {
      begun ? begin_again() : begin();
      begun = true;
      if (drive()) return;
    } catch (...) {
    }
    // Out of memory, most likely. What was known is not to be trusted any more but for the subscriptions: the
    // links are made anew, and a gap says that something may have been missed.
    begun = begun || machine_.has_value();
    nanosleep(&after_trouble, nullptr);
    rest_if_asked();
  }
}

// Until stopped. False: a turn of the application's broke off.
bool worker::drive() {
  auto& chair = box_.chair();
  while (!stopped_) {
    rest_if_asked();
    if (!chair.wanted()) {
      loop_.run_one();
      continue;
    }
    chair.leave_in_background();
    chair.take_in_background();
    if (broken_.exchange(false)) return false;
    if (owed_.exchange(false)) finish_turn();
  }
  chair.leave_in_background();  // an application may be waiting for it, to see that it is over
  return true;
}

void worker::turn(std::optional<steady_time> until) noexcept {
  try {
    if (until && *until - clock_now() < long_wait) {
      loop_.run_one_until(*until);
    } else {
      if (until) rouse_by(*until);
      loop_.run_one();
    }
  } catch (...) {
    broken_ = true;
  }
}

// A handler runs by then. One that runs too early costs a turn, which is cheaper than a timer for each wait.
void worker::rouse_by(steady_time at) {
  if (rouse_at_ && *rouse_at_ <= at) return;
  rouse_at_.reset();
  rouse_.expires_at(at);
  rouse_.async_wait([this](const boost::system::error_code& error) {
    if (!error) rouse_at_.reset();
  });
  rouse_at_ = at;
}

void worker::begin() {
  machine_.emplace(settings_.failover, settings_.upstream, random_word());
  for (const auto& channel : std::exchange(kept_, {})) machine_->resume(channel);
  wait_for_commands();
  machine_->start(clock_now(), actions_);
  finish_turn();
}

void worker::begin_again() {
  if (stopped_) return loop_.stop();
  for (auto& channel : box_.start_over()) ended_.push_back(std::move(channel));
  machine fresh(settings_.failover, settings_.upstream, random_word());
  for (const auto& channel : machine_->core().subscribed())
    if (std::find(ended_.begin(), ended_.end(), channel) == ended_.end()) fresh.resume(channel);
  actions_.clear();
  owed_ = false;
  turn_.clear();
  hub_.close();
  own_.close();
  slots_.release();
  unsubscribed_.clear();
  *machine_ = std::move(fresh);
  armed_.reset();
  boost::system::error_code ignored;
  commands_.cancel(ignored);
  wait_for_commands();
  ended_.clear();
  machine_->start(clock_now(), actions_);
  finish_turn();
}

void worker::wait_for_commands() {
  commands_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         auto commands = box_.take_commands();
                         if (!stopped_) wait_for_commands();
                         for (auto& c : commands) obey(c);
                         finish_turn();
                       });
}

void worker::obey(command& c) {
  const auto now = clock_now();
  if (auto* s = std::get_if<ask_subscribe>(&c)) {
    auto id = s->first;
    for (const auto& channel : s->channels) machine_->subscribe(id++, channel, s->until, now, actions_);
  } else if (auto* u = std::get_if<ask_unsubscribe>(&c)) {
    machine_->unsubscribe(u->channel, now, actions_);
    unsubscribed_.push_back(std::move(u->channel));
  } else if (!std::exchange(stopped_, true)) {
    machine_->stop(actions_);
    finish_turn();
    hub_.close();
    pin_if_connecting();
    own_.close();
    slots_.release();
    timer_.cancel();
    rouse_.cancel();
    loop_.stop();
  }
}

// A connecting thread cannot be interrupted; it ends by itself. Its code must stay until then,
// whoever calls dlclose().
void worker::pin_if_connecting() {
  if (!own_.connecting()) return;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&clock_now), &info) != 0 && info.dli_fname != nullptr)
    static_cast<void>(dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE));
}

void worker::on_time() {
  const bool hub_spoke = hub_.read_pass();
  const bool own_spoke = own_.read_pass();
  machine_->tick(clock_now(), !hub_spoke && !own_spoke, actions_);
  finish_turn();
}

void worker::carry_out_all() {
  const bool guest = box_.chair().mine() && !stopped_;
  while (!actions_.empty()) {
    auto batch = std::exchange(actions_, {});
    for (auto a = batch.begin(); a != batch.end(); ++a) {
      if (guest && !quick(*a)) {
        batch.erase(batch.begin(), a);
        std::move(actions_.begin(), actions_.end(), std::back_inserter(batch));
        actions_ = std::move(batch);
        owed_ = true;
        return;
      }
      carry_out(*a);
    }
  }
}

void worker::finish_turn() {
  carry_out_all();
  hub_.flush();
  const bool changed = state_changed();
  if (!turn_.empty() || !unsubscribed_.empty() || changed)
    box_.settle(turn_, unsubscribed_, changed ? &state_ : nullptr);
  unsubscribed_.clear();
  if (!stopped_) rearm();
}

void worker::carry_out(machine_action& a) {
  std::visit(
      [this](auto& x) {
        using kind = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<kind, connect_hub>) {
          // The default may stand for the only hub of the host.
          const bool unnamed = settings_.socket == settings{}.socket;
          auto failure = hub_.connect(unnamed ? socket_when_unnamed() : settings_.socket, settings_.hub_user);
          if (failure.reason.empty())
            machine_->hub_connected(clock_now(), actions_);
          else if (failure.denied)
            machine_->hub_denied(std::move(failure.reason), clock_now(), actions_);
          else
            machine_->hub_failed(std::move(failure.reason), failure.hopeless, clock_now(), actions_);
        } else if constexpr (std::is_same_v<kind, close_hub>) {
          hub_.flush();
          hub_.close();
        } else if constexpr (std::is_same_v<kind, send_hub>) {
          hub_.send(x.message);
        } else if constexpr (std::is_same_v<kind, acquire_slot>) {
          acquire();
        } else if constexpr (std::is_same_v<kind, release_slot>) {
          slots_.release();
        } else if constexpr (std::is_same_v<kind, open_session>) {
          own_.open();
        } else if constexpr (std::is_same_v<kind, query_session>) {
          own_.query(x.sql);
        } else if constexpr (std::is_same_v<kind, notify_outside>) {
          own_.notify(x.payload, x.sql);
        } else if constexpr (std::is_same_v<kind, close_session>) {
          own_.close();
        } else {
          turn_.emplace_back(std::move(x));
        }
      },
      a);
}

// A limit that nobody has asked for must not leave anybody deaf: where slots cannot be counted,
// there is none.
void worker::acquire() {
  std::string trouble;
  const auto limit = settings_.fallback_limit.value_or(default_slots(machine_->core().hub().slots()));
  const auto how = slots_.acquire(limit, static_cast<std::uint64_t>(random_.next() * 1e6), trouble);
  const bool uncounted = how == slots::outcome::impossible && !settings_.fallback_limit;
  machine_->slot(how == slots::outcome::granted || uncounted, std::move(trouble), clock_now(), actions_);
}

void worker::rearm() {
  const auto at = machine_->deadline();
  if (!at || (armed_ && *armed_ <= *at)) return;
  armed_ = at;
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    armed_.reset();
    on_time();
  });
}

bool worker::state_changed() {
  const auto& core = machine_->core();
  const auto& hub = core.hub();
  auto& s = state_;
  const auto& uuid = hub.up() ? hub.welcome().hub : std::string();
  if (s.source == core.source() && s.healthy == core.healthy() && s.handing_over == core.handing_over() &&
      s.slot == core.holds_slot() && s.channels == core.channels() && s.falls == core.counts().falls &&
      s.handovers == core.counts().handovers && s.aborted == core.counts().aborted &&
      s.hub_connects == hub.connects() && s.own_connects == machine_->own_sessions() &&
      s.reason == core.reason() && s.hub == uuid)
    return false;
  s.source = core.source();
  s.healthy = core.healthy();
  s.handing_over = core.handing_over();
  s.slot = core.holds_slot();
  s.channels = core.channels();
  s.falls = core.counts().falls;
  s.handovers = core.counts().handovers;
  s.aborted = core.counts().aborted;
  s.hub_connects = hub.connects();
  s.own_connects = machine_->own_sessions();
  s.reason = core.reason();
  s.hub = uuid;
  return true;
}

// What the links say

void worker::on_hub_bytes() { came_ = clock_now(); }

void worker::on_hub_wake(wake&& w) {
  if (event e; machine_->hub_wake(std::move(w), came_, actions_, e))
    turn_.emplace_back(deliver{std::move(e)});
}

void worker::on_hub_message(from_hub&& message) {
  machine_->hub_message(std::move(message), came_, actions_);
}

void worker::on_hub_closed(std::string reason) {
  machine_->hub_closed(std::move(reason), clock_now(), actions_);
  finish_turn();
}

void worker::on_own_opened(const session_info& info) {
  machine_->session_opened(info, clock_now(), actions_);
  finish_turn();
}

void worker::on_own_failed(const connect_failure& failure) {
  machine_->session_failed(failure, clock_now(), actions_);
  finish_turn();
}

void worker::on_own_notified(const std::string& payload, const std::string& trouble) {
  machine_->session_notified_outside(payload, trouble, clock_now(), actions_);
  finish_turn();
}

void worker::on_bytes() { machine_->session_heard(clock_now()); }

void worker::on_result(query_result result) { machine_->session_result(result, clock_now(), actions_); }

void worker::on_notification(int backend_pid, std::string_view channel, std::string_view payload) {
  machine_->session_notification(backend_pid, channel, payload, clock_now(), actions_);
}

void worker::on_lost(std::string reason) {
  own_.close();
  machine_->session_lost(std::move(reason), clock_now(), actions_);
  finish_turn();
}

}  // namespace pgwake::client
