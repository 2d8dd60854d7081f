#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "client/src/loop_descriptors.hpp"
#include "client/src/worker.hpp"

// How a handle comes through a fork, and through the end of its process. See fork_guard and seat.
namespace pgwake::client {
namespace {

constexpr int rest_looks = 2'000;  // moments that a fork waits for a turn to end, which takes far less
constexpr timespec a_moment{0, 1'000'000};
constexpr int connect_patience = 50;  // moments that a fork waits for a connect

}  // namespace

// False: the application's thread is here, which leaves the loop instead; the background thread will rest.
bool worker::rest_if_asked() {
  if (box_.chair().mine()) return motion_ == motion::running;
  auto asked = motion::asked;
  if (!motion_.compare_exchange_strong(asked, motion::resting)) return true;
  box_.chair().rest(true);
  sem_post(&at_rest_);
  while (sem_wait(&go_on_) != 0) {
  }
  box_.chair().rest(false);
  return true;
}

void worker::before_fork() {
  // Most connects end soon, and then the child has nothing of them. One that does not is thrown away
  // afterwards.
  for (int i = 0; i < connect_patience && own_.under_way(); ++i) nanosleep(&a_moment, nullptr);
  auto running = motion::running;
  exiting_ = !motion_.compare_exchange_strong(running, motion::asked);
  if (exiting_) return;
  box_.wake_thread();
  rested_ = false;
  for (int i = 0; i < rest_looks && !rested_; ++i) rested_ = at_rest();
}

// Whoever runs the loop has come to rest; or nobody runs it, and nobody will. Waits a moment for it.
bool worker::at_rest() {
  if (box_.chair().mine()) return true;
  if (box_.chair().keep_empty()) return true;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += a_moment.tv_nsec;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  return sem_clockwait(&at_rest_, CLOCK_MONOTONIC, &until) == 0;
}

void worker::after_fork_in_parent() {
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
}

}  // namespace pgwake::client
