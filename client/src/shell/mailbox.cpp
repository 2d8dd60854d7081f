#include "client/src/shell/mailbox.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "client/src/shell/uncancelled.hpp"

namespace pgwake::client {
namespace {

// The background thread answers at the deadline; this much later the caller answers itself.
constexpr millis slack{1'000};

event answer_event(std::string channel, std::uint64_t id, answer how) {
  event e;
  e.what = event::kind::subscribed;
  e.channel = std::move(channel);
  e.id = id;
  e.how = how.how;
  e.reason = std::move(how.reason);
  if (how.how == answer::verdict::nack) e.reason = std::string(to_string(how.why)) + ": " + e.reason;
  return e;
}

std::size_t cost_of_answer(const std::string& channel) { return event_queue::cost({}) + heap_of(channel); }

void reset(int fd) {
  const uncancelled meanwhile;
  std::uint64_t count = 0;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace

unique_fd make_eventfd(int flags) {
  const int fd = ::eventfd(0, EFD_CLOEXEC | flags);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return unique_fd(fd);
}

void signal_eventfd(int fd) {
  const uncancelled meanwhile;
  const std::uint64_t one = 1;
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

// Counts the calls that are inside, so that close() can wait for them. Holds the lock.
class inside {
 public:
  explicit inside(mailbox& m) : box_(m), lock(m.guard_) { ++box_.inside_; }
  ~inside() {
    if (--box_.inside_ == 0 && box_.closing_) box_.all_left_.notify_all();
  }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

 private:
  mailbox& box_;

 public:
  std::unique_lock<std::mutex> lock;
};

// However a subscribe ends, an exception included, nobody answers into its stack frame afterwards.
struct forget_calls {
  std::unordered_map<std::uint64_t, std::pair<call*, std::size_t>>& calls;
  std::uint64_t first;
  std::size_t count;
  const call& waiting;
  ~forget_calls() {
    for (std::size_t i = 0; waiting.pending > 0 && i < count; ++i) calls.erase(first + i);
  }
};

mailbox::mailbox(std::size_t queue_max_bytes, loop_turns& turns)
    : events_wait_(make_eventfd(EFD_NONBLOCK)),
      commands_came_(make_eventfd(EFD_NONBLOCK)),
      seat_(commands_came_.get()),
      turns_(turns),
      queue_(queue_max_bytes) {}

void mailbox::post(command c) {
  commands_.push_back(std::move(c));
  if (!std::exchange(woken_, true)) signal_eventfd(commands_came_.get());
  seat_.needed();
}

mailbox::outcome mailbox::subscribe(std::vector<std::string> channels, std::optional<steady_time> until,
                                    call& waiting) {
  const uncancelled meanwhile;
  inside in(*this);
  if (closing_) return outcome::closed;
  const auto count = channels.size();
  const auto first = requests_ + 1;
  waiting.pending = count;
  waiting.answers.assign(count, {answer::verdict::timeout, code::shutdown, "no answer"});
  requests_ += count;
  const forget_calls forgetting{calls_, first, count, waiting};
  for (std::size_t i = 0; i < count; ++i) calls_[first + i] = {&waiting, i};
  post(ask_subscribe{first, std::move(channels), until});
  const auto done = [&] { return waiting.pending == 0 || closing_; };
  if (until)
    answers_came_.wait_until(in.lock, *until + slack, done);
  else
    answers_came_.wait(in.lock, done);
  return closing_ ? outcome::closed : outcome::ok;
}

mailbox::outcome mailbox::unsubscribe(const std::string& channel) {
  inside in(*this);
  if (closing_) return outcome::closed;
  queue_.forget(channel);
  ++muted_[channel];
  post(ask_unsubscribe{channel});
  fork_gaps_.erase(channel);
  note_taken();
  return outcome::ok;
}

mailbox::outcome mailbox::start_subscribe(std::vector<std::string> channels, std::optional<steady_time> until,
                                          std::uint64_t id) {
  const inside in(*this);
  if (closing_) return outcome::closed;
  std::size_t more = 0;
  for (const auto& channel : channels) more += cost_of_answer(channel);
  if (owed_bytes_ + queue_.answer_bytes() + more > max_answer_bytes) return outcome::full;
  const auto first = requests_ + 1;
  requests_ += channels.size();
  for (std::size_t i = 0; i < channels.size(); ++i) started_[first + i] = {id, channels[i]};
  owed_bytes_ += more;
  post(ask_subscribe{first, std::move(channels), until});
  return outcome::ok;
}

mailbox::outcome mailbox::next(event& out, std::optional<steady_time> until) {
  inside in(*this);
  if (queue_.empty() && until != steady_time::min()) await_event(in.lock, until);
  if (closing_) return outcome::closed;
  if (!queue_.pop(out)) return outcome::timeout;
  if (waiting_for_events_ > 0 && !queue_.empty()) events_came_.notify_one();
  note_taken();
  return outcome::ok;
}

mailbox::outcome mailbox::read(const std::function<bool(const event&)>& accept, std::size_t max,
                               std::optional<steady_time> until) {
  inside in(*this);
  if (queue_.empty() && until != steady_time::min()) await_event(in.lock, until);
  if (closing_) return outcome::closed;
  if (queue_.empty()) return outcome::timeout;
  event gone;
  for (std::size_t i = 0; i < max && !queue_.empty() && accept(*queue_.front()); ++i) queue_.pop(gone);
  if (waiting_for_events_ > 0 && !queue_.empty()) events_came_.notify_one();
  note_taken();
  return outcome::ok;
}

void mailbox::await_event(std::unique_lock<std::mutex>& lock, std::optional<steady_time> until) {
  const uncancelled meanwhile;
  const auto ready = [&] { return !queue_.empty() || closing_; };
  if (calm_ && !driving_ && !ready() && !turns_.reserved()) drive(lock, until);
  if (ready() || turns_.inherited()) return;
  ++waiting_for_events_;
  if (until)
    events_came_.wait_until(lock, *until, ready);
  else
    events_came_.wait(lock, ready);
  --waiting_for_events_;
}

// The calling thread runs the loop until something is there for it. It never rests there: a fork, and a
// process that exits, must not keep it beyond its deadline.
void mailbox::drive(std::unique_lock<std::mutex>& lock, std::optional<steady_time> until) {
  driving_ = true;
  lock.unlock();
  const bool taken = seat_.take(until);
  lock.lock();
  while (taken && queue_.empty() && !closing_ && calm_ && !turns_.reserved() &&
         !(until && std::chrono::steady_clock::now() >= *until)) {
    lock.unlock();
    turns_.turn(until);
    lock.lock();
  }
  driving_ = false;
  if (!taken || turns_.inherited()) return;
  seat_.leave(woken_ || closing_ || !calm_ || turns_.reserved() || waiting_for_events_ > 0);
}

int mailbox::event_descriptor() {
  const inside in(*this);
  watched_ = true;
  note_readable();
  return events_wait_.get();
}

void mailbox::note_readable() {
  if (queue_.empty()) return;
  if (watched_ && !std::exchange(readable_, true)) signal_eventfd(events_wait_.get());
  if (!bell_ || std::exchange(rung_, true)) return;
  const uncancelled meanwhile;
  ssize_t sent = 0;
  do sent = ::send(bell_.get(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EAGAIN) bell_.reset();  // the other end is closed; one that is full is readable
}

// After something was taken or dropped.
void mailbox::note_taken() {
  if (!queue_.empty() || closing_) return;
  rung_ = false;
  if (std::exchange(readable_, false)) reset(events_wait_.get());
}

int mailbox::wake_socket() {
  const inside in(*this);
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0) return -1;
  bell_.reset(pair[0]);
  rung_ = false;
  note_readable();
  return pair[1];
}

void mailbox::expect_fork_gaps(const std::vector<std::string>& channels) {
  fork_gaps_.insert(channels.begin(), channels.end());
}

std::vector<std::string> mailbox::unsubscribed_at_fork() {
  std::vector<std::string> out;
  const std::unique_lock lock(guard_, std::try_to_lock);
  if (lock)
    for (const auto& [channel, times] : muted_) out.push_back(channel);
  return out;
}

std::size_t mailbox::waiting() {
  const inside in(*this);
  return queue_.size();
}

snapshot mailbox::state() {
  const inside in(*this);
  auto out = state_;
  out.waiting = queue_.size();
  out.waiting_bytes = queue_.bytes();
  out.wakes = queue_.wakes();
  out.coalesced = queue_.coalesced();
  out.discarded = queue_.discarded();
  out.gaps = queue_.gaps();
  return out;
}

void mailbox::shut_locked() {
  if (std::exchange(closing_, true)) return;
  events_came_.notify_all();
  answers_came_.notify_all();
  // Who polls looks, and is told.
  if (watched_ && !std::exchange(readable_, true)) signal_eventfd(events_wait_.get());
  bell_.reset();
  seat_.end();
  post(ask_stop{});
}

void mailbox::shut() {
  const std::lock_guard lock(guard_);
  shut_locked();
}

void mailbox::close() {
  std::unique_lock lock(guard_);
  shut_locked();
  all_left_.wait(lock, [&] { return inside_ == 0; });
}

std::vector<std::string> mailbox::start_over() {
  const std::lock_guard lock(guard_);
  std::vector<std::string> ended;
  for (const auto& [channel, times] : muted_) ended.push_back(channel);
  muted_.clear();
  commands_.clear();
  woken_ = false;
  if (closing_) post(ask_stop{});
  for (auto& [id, where] : calls_) {
    where.first->answers[where.second].how = answer::verdict::timeout;
    --where.first->pending;
  }
  calls_.clear();
  owed_bytes_ = 0;
  for (auto& [id, what] : std::exchange(started_, {}))
    queue_.push(answer_event(std::move(what.channel), what.id,
                             {answer::verdict::timeout, code::shutdown, "no answer"}));
  note_readable();
  answers_came_.notify_all();
  return ended;
}

void mailbox::wake_thread() { signal_eventfd(commands_came_.get()); }

std::vector<command> mailbox::take_commands() {
  const std::lock_guard lock(guard_);
  woken_ = false;
  reset(commands_came_.get());
  return std::exchange(commands_, {});
}

void mailbox::push(event&& e) {
  if (e.what == event::kind::wake && !muted_.empty() && muted_.contains(e.channel)) return;
  if (e.gap != gap_cause::none && !fork_gaps_.empty()) e.forked = fork_gaps_.erase(e.channel) > 0;
  queue_.push(std::move(e));
}

void mailbox::answer_later(std::uint64_t request, answer&& how) {
  const auto it = started_.find(request);
  if (it == started_.end()) return;
  owed_bytes_ -= cost_of_answer(it->second.channel);
  queue_.push(answer_event(std::move(it->second.channel), it->second.id, std::move(how)));
  started_.erase(it);
}

void mailbox::settle(std::vector<delivery>& turn, const std::vector<std::string>& unsubscribed,
                     const snapshot* changed) {
  const std::lock_guard lock(guard_);
  bool answered_any = false;
  for (auto& d : turn) {
    if (auto* e = std::get_if<deliver>(&d)) {
      push(std::move(e->what));
    } else if (auto* f = std::get_if<forget>(&d)) {
      queue_.forget(f->channel);
    } else if (auto* a = std::get_if<answered>(&d)) {
      const auto it = calls_.find(a->request);
      if (it == calls_.end()) {
        answer_later(a->request, std::move(a->how));
        continue;
      }
      auto& waiting = *it->second.first;
      waiting.answers[it->second.second] = std::move(a->how);
      answered_any = answered_any || --waiting.pending == 0;
      calls_.erase(it);
    }
  }
  turn.clear();
  for (const auto& channel : unsubscribed)
    if (const auto it = muted_.find(channel); it != muted_.end() && --it->second == 0) muted_.erase(it);
  if (changed != nullptr) {
    state_ = *changed;
    calm_ = state_.healthy && !state_.handing_over;
  }
  if (answered_any) answers_came_.notify_all();
  if (queue_.empty()) return note_taken();
  note_readable();
  if (waiting_for_events_ > 0) events_came_.notify_one();
}

}  // namespace pgwake::client
