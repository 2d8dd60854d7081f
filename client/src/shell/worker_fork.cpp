#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "client/src/shell/loop_descriptors.hpp"
#include "client/src/shell/worker.hpp"

// How a handle comes through a fork, and through the end of its process. See fork_guard and seat.
namespace pgwake::client {
namespace {

constexpr millis rest_patience{2'000};  // a fork waits for a turn to end, which takes far less
constexpr millis connect_patience{50};  // and for a connect
constexpr timespec a_moment{0, 1'000'000};

timespec monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now;
}

timespec after(timespec t, millis duration) {
  t.tv_sec += duration.count() / 1'000;
  t.tv_nsec += duration.count() % 1'000 * 1'000'000;
  if (t.tv_nsec >= 1'000'000'000) {
    t.tv_nsec -= 1'000'000'000;
    ++t.tv_sec;
  }
  return t;
}

// Not by counting sleeps: signals cut those short.
bool past(const timespec& until) {
  const auto now = monotonic_now();
  return now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec);
}

}  // namespace

// The background thread, in the seat and between two turns. It looks before each turn and not when it is
// woken: one wake may stand for a command and for a fork, or for two forks.
void worker::rest_if_asked() {
  for (auto asked = motion::asked; motion_.compare_exchange_strong(asked, motion::resting);
       asked = motion::asked) {
    box_.chair().rest(true);
    sem_post(&at_rest_);
    while (sem_wait(&go_on_) != 0) {
    }
    box_.chair().rest(false);
  }
}

void worker::before_fork() {
  // Most connects end soon, and then the child has nothing of them. One that does not is thrown away
  // afterwards, and further forks need not wait for it.
  for (const auto until = after(monotonic_now(), connect_patience);
       own_.under_way() && !own_.tainted() && !past(until);)
    nanosleep(&a_moment, nullptr);
  auto running = motion::running;
  exiting_ = !motion_.compare_exchange_strong(running, motion::asked);
  if (exiting_) return;
  box_.wake_thread();
  const auto until = after(monotonic_now(), rest_patience);
  do rested_ = at_rest();
  while (!rested_ && !past(until));
  whole_ = rested_;
}

// Whoever runs the loop has come to rest; or nobody runs it, and nobody will. Waits a moment for it.
bool worker::at_rest() {
  if (box_.chair().mine()) return true;
  if (box_.chair().keep_empty()) return true;
  const auto until = after(monotonic_now(), millis{1});
  return sem_clockwait(&at_rest_, CLOCK_MONOTONIC, &until) == 0;
}

void worker::after_fork_in_parent() {
  whole_ = false;
  if (own_.under_way()) own_.forked();
  if (exiting_) return;
  // Before anybody can have the seat again, and come to rest for a fork that is over.
  const bool resting = motion_.exchange(motion::running) == motion::resting;
  box_.chair().let_go();
  if (!resting) return;
  if (!rested_) {
    // It came to rest after all, too late.
    while (sem_wait(&at_rest_) != 0) {
    }
  }
  sem_post(&go_on_);
}

// The thread does not exist here. Nothing is freed: what it owned stays as it was, untouched and unused.
void worker::after_fork_in_child() {
  inherited_.store(true);
  if (box_.chair().mine()) stop_at_once(loop_);
  box_.chair().end();
  if (rested_) {
    hub_.abandon();
    own_.abandon();
    if (slots_.held() >= 0) ::close(slots_.held());
  }
  for (const int fd : loop_descriptors_)
    if (fd >= 0) ::close(fd);
  ::close(box_.command_descriptor());
  ::close(box_.event_descriptor_raw());
  if (box_.wake_socket_raw() >= 0) ::close(box_.wake_socket_raw());
}

std::optional<std::vector<std::string>> worker::subscribed_at_fork() {
  if (!whole_ || !machine_) return std::nullopt;
  const auto ended = box_.unsubscribed_at_fork();
  auto channels = machine_->core().subscribed();
  std::erase_if(channels,
                [&](const auto& c) { return std::find(ended.begin(), ended.end(), c) != ended.end(); });
  return channels;
}

}  // namespace pgwake::client
