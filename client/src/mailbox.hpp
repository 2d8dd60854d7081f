#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "client/src/descriptor.hpp"
#include "client/src/event_queue.hpp"
#include "client/src/seat.hpp"

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

// Between the background thread and the application's. One lock; nobody holds it while waiting for anything
// else.
class mailbox {
 public:
  enum class outcome { ok, timeout, closed };

  // Throws std::system_error when the system refuses a descriptor.
  mailbox(std::size_t queue_max_bytes, loop_turns& turns);

  // The application's side, any thread.
  outcome subscribe(std::vector<std::string> channels, std::optional<steady_time> until, call& waiting);
  outcome unsubscribe(const std::string& channel);
  outcome next(event& out, std::optional<steady_time> until);
  int event_descriptor();
  std::size_t waiting();  // events
  snapshot state();
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
  void note_readable();
  void await_event(std::unique_lock<std::mutex>& lock, std::optional<steady_time> until);
  void drive(std::unique_lock<std::mutex>& lock, std::optional<steady_time> until);

  std::mutex guard_;
  std::condition_variable events_came_;
  std::condition_variable answers_came_;
  std::condition_variable all_left_;
  descriptor events_wait_;    // readable while events wait, once somebody has asked for it
  descriptor commands_came_;  // wakes the background thread
  seat seat_;
  loop_turns& turns_;
  event_queue queue_;
  std::vector<command> commands_;
  std::unordered_map<std::uint64_t, std::pair<call*, std::size_t>> calls_;
  std::unordered_map<std::string, unsigned> muted_;  // unsubscribed, and the thread does not know yet
  std::uint64_t requests_ = 0;
  std::size_t waiting_for_events_ = 0;
  unsigned inside_ = 0;
  bool watched_ = false;   // somebody polls events_wait_
  bool readable_ = false;  // it is
  bool woken_ = false;     // commands_came_ is
  bool closing_ = false;
  bool driving_ = false;  // a thread of the application has the seat, or is about to
  bool calm_ = false;     // somebody serves and nothing is changing: an application may have the seat
  snapshot state_;
};

}  // namespace pgwake::client
