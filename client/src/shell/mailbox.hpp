#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "client/src/core/event_queue.hpp"
#include "client/src/shell/eventfd.hpp"
#include "client/src/shell/seat.hpp"

namespace pgwake::client {

// A subscribe call that waits for its answers. Lives on the calling thread's stack.
struct call {
  std::size_t pending = 0;
  std::vector<answer> answers;
};

// What the application asks of the background thread.
struct ask_subscribe {
  std::uint64_t first;  // request ids count up from here
  std::vector<std::string> channels;
  std::optional<steady_time> until;
};
struct ask_unsubscribe {
  std::string channel;
};
struct ask_stop {};
using command = std::variant<ask_subscribe, ask_unsubscribe, ask_stop>;

// As of the end of the background thread's last turn.
struct snapshot {
  side source = side::none;
  bool healthy = false;
  bool handing_over = false;
  bool slot = false;
  std::uint64_t channels = 0;
  std::uint64_t falls = 0;
  std::uint64_t handovers = 0;
  std::uint64_t aborted = 0;
  std::uint64_t hub_connects = 0;
  std::uint64_t own_connects = 0;
  std::string reason;
  std::string hub;
  // Of the queue, as of now.
  std::uint64_t waiting = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t wakes = 0;
  std::uint64_t coalesced = 0;
  std::uint64_t discarded = 0;
  std::uint64_t gaps = 0;
};

using delivery = std::variant<deliver, forget, answered>;

// Runs the event loop for whoever has the seat.
class loop_turns {
 public:
  virtual ~loop_turns() = default;
  // One handler, or none if none is due by `until`.
  virtual void turn(std::optional<steady_time> until) noexcept = 0;
  // The loop is not for the application: there is work that only the background thread does, or a fork or the
  // end of the process waits for it to come to rest.
  virtual bool reserved() const = 0;
  // This process is a child, forked by a signal handler in the midst of a turn.
  virtual bool inherited() const = 0;
};

// Between the background thread and the application's. One lock; nobody holds it while waiting
// for anything else.
class mailbox {
 public:
  enum class outcome { ok, timeout, closed, full };
  // Answers to start_subscribe() that are owed or wait to be taken, beyond which it takes no more.
  static constexpr std::size_t max_answer_bytes = 64U << 20U;

  // Throws std::system_error when the system refuses a descriptor.
  mailbox(std::size_t queue_max_bytes, loop_turns& turns);

  // The application's side, any thread.
  outcome subscribe(std::vector<std::string> channels, std::optional<steady_time> until, call& waiting);
  // Does not wait: an event of the kind `subscribed` answers for each channel. `full`: nothing was done.
  outcome start_subscribe(std::vector<std::string> channels, std::optional<steady_time> until,
                          std::uint64_t id);
  outcome unsubscribe(const std::string& channel);
  outcome next(event& out, std::optional<steady_time> until);
  // Hands out what waits, at most `max`, as long as `accept` takes it; what it does not take stays. `accept`
  // runs under the lock.
  outcome read(const std::function<bool(const event&)>& accept, std::size_t max,
               std::optional<steady_time> until);
  int event_descriptor();
  // One end of a pair of sockets, the caller's; -1: errno says why. It gets a byte whenever something comes
  // while nothing waited. The pair of an earlier call ends.
  int wake_socket();
  std::size_t waiting();  // events
  snapshot state();
  // Before the background thread begins: the first gap of each of these is said to be the fork's.
  void expect_fork_gaps(const std::vector<std::string>& channels);
  // In a child that inherited it: the channels whose end was asked for and that the thread did not know of
  // yet. Nothing if another thread was inside at the fork.
  std::vector<std::string> unsubscribed_at_fork();
  // Calls that wait or come later answer `closed`. The thread is asked to stop.
  void shut();
  // The same, and returns when none is inside any more.
  void close();

  // The background thread's side.
  std::vector<command> take_commands();
  // Puts a turn's outcome where it belongs, in order. `unsubscribed`: the commands carried out in this turn.
  // `changed`: null if the state is as before.
  void settle(std::vector<delivery>& turn, const std::vector<std::string>& unsubscribed,
              const snapshot* changed);
  int command_descriptor() const { return commands_came_.get(); }
  int event_descriptor_raw() const { return events_wait_.get(); }
  int wake_socket_raw() const { return bell_.get(); }
  // After a turn that broke off: every subscribe that waits answers `timeout`, what was asked for and perhaps
  // not done is forgotten, except to stop. The channels whose end was asked for.
  std::vector<std::string> start_over();
  void wake_thread();  // async-signal-safe
  seat& chair() { return seat_; }

 private:
  friend class inside;
  void post(command c);
  void shut_locked();
  void push(event&& e);
  void answer_later(std::uint64_t request, answer&& how);
  void note_readable();
  void note_taken();
  void await_event(std::unique_lock<std::mutex>& lock, std::optional<steady_time> until);
  void drive(std::unique_lock<std::mutex>& lock, std::optional<steady_time> until);

  std::mutex guard_;
  std::condition_variable events_came_;
  std::condition_variable answers_came_;
  std::condition_variable all_left_;
  unique_fd events_wait_;    // readable while events wait, once somebody has asked for it
  unique_fd commands_came_;  // wakes the background thread
  unique_fd bell_;           // the library's end of the wake socket
  seat seat_;
  loop_turns& turns_;
  event_queue queue_;
  std::vector<command> commands_;
  std::unordered_map<std::uint64_t, std::pair<call*, std::size_t>> calls_;
  struct started {
    std::uint64_t id;
    std::string channel;
  };
  std::unordered_map<std::uint64_t, started> started_;  // subscribes that an event will answer
  std::size_t owed_bytes_ = 0;                          // of those events, about
  std::unordered_map<std::string, unsigned> muted_;     // unsubscribed, and the thread does not know yet
  std::unordered_set<std::string> fork_gaps_;           // kept through a fork, and no gap of it has come yet
  std::uint64_t requests_ = 0;
  std::size_t waiting_for_events_ = 0;
  unsigned inside_ = 0;
  bool watched_ = false;   // somebody polls events_wait_
  bool readable_ = false;  // it is
  bool rung_ = false;      // a byte was written to bell_ since nothing waited
  bool woken_ = false;     // commands_came_ is
  bool closing_ = false;
  bool driving_ = false;  // a thread of the application has the seat, or is about to
  bool calm_ = false;     // somebody serves and nothing is changing: an application may have the seat
  snapshot state_;
};

}  // namespace pgwake::client
