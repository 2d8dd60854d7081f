// pgwake for C++20: pgwake.h with ownership, exceptions and types. Header-only. What each call promises
// (threads, lifetimes, deadlines) is said in pgwake.h; it is the same here, call by call.
#ifndef PGWAKE_HPP
#define PGWAKE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pgwake/pgwake.h"

namespace pgwake {

// As a deadline: wait for ever.
inline constexpr std::chrono::milliseconds forever{-1};

// A call that failed. A deadline that passed is none: those calls say so by what they return.
class error : public std::runtime_error {
 public:
  error(int result, const std::string& what_failed)
      : std::runtime_error(what_failed + ": " + text(result)), result_(result), code_(pgwake_nack_code()) {}
  int result() const noexcept { return result_; }  // enum pgwake_result
  bool nack() const noexcept { return result_ == PGWAKE_NACK; }
  std::string_view code() const noexcept { return code_; }  // of a refusal, such as "forbidden"; else ""
  bool forked() const noexcept { return result_ == PGWAKE_FORKED; }
  bool closed() const noexcept { return result_ == PGWAKE_CLOSED; }

 private:
  static std::string text(int result) {
    const std::string more = pgwake_last_error();
    return more.empty() ? pgwake_strerror(result) : more;
  }
  int result_;
  const char* code_;
};

// See pgwake_options_set() and docs/client.md. Throws error with PGWAKE_INVALID when a value makes no sense.
class options {
 public:
  options() : raw_(pgwake_options_new()) {
    if (raw_ == nullptr) throw std::bad_alloc();
  }
  options(options&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  options& operator=(options&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~options() { pgwake_options_free(raw_); }

  options& set(const std::string& name, const std::string& value) & {
    if (const int r = pgwake_options_set(raw_, name.c_str(), value.c_str()); r != PGWAKE_OK)
      throw error(r, name);
    return *this;
  }
  options&& set(const std::string& name, const std::string& value) && {
    set(name, value);
    return std::move(*this);
  }
  options& ignore_environment() {
    pgwake_options_ignore_environment(raw_);
    return *this;
  }
  const pgwake_options* raw() const noexcept { return raw_; }

 private:
  pgwake_options* raw_;
};

enum class source { none = PGWAKE_SOURCE_NONE, hub = PGWAKE_SOURCE_HUB, own = PGWAKE_SOURCE_OWN };

// A view of one event: valid until the next one is taken.
class event {
 public:
  explicit event(const pgwake_event& raw) noexcept : raw_(&raw) {}

  bool is_wake() const noexcept { return raw_->kind == PGWAKE_EVENT_WAKE; }
  bool is_state() const noexcept { return raw_->kind == PGWAKE_EVENT_STATE; }
  bool is_refused() const noexcept { return raw_->kind == PGWAKE_EVENT_REFUSED; }
  bool is_subscribed() const noexcept { return raw_->kind == PGWAKE_EVENT_SUBSCRIBED; }  // id(), result()
  // "Something changed, or may have": read again whatever the channel stands for.
  bool read_again() const noexcept { return is_wake() && raw_->payload == nullptr; }
  bool is_gap() const noexcept { return raw_->gap != PGWAKE_GAP_NONE; }
  std::string_view gap() const noexcept { return pgwake_gap_name(raw_->gap); }  // "" if none

  std::string_view channel() const noexcept { return raw_->channel == nullptr ? "" : raw_->channel; }
  std::optional<std::string_view> payload() const noexcept {
    if (raw_->payload == nullptr) return std::nullopt;
    return std::string_view(raw_->payload, raw_->payload_size);
  }
  pgwake::source source() const noexcept { return static_cast<pgwake::source>(raw_->source); }
  int by() const noexcept { return raw_->by; }
  bool healthy() const noexcept { return raw_->healthy != 0; }
  std::string_view reason() const noexcept { return raw_->reason == nullptr ? "" : raw_->reason; }
  std::uint64_t id() const noexcept { return raw_->id; }
  int result() const noexcept { return raw_->result; }  // enum pgwake_result
  bool utf8() const noexcept { return (raw_->flags & PGWAKE_FLAG_NOT_UTF8) == 0; }
  const pgwake_event& raw() const noexcept { return *raw_; }

 private:
  const pgwake_event* raw_;
};

// Many events, taken at once by listener::read(): `for (pgwake::event e : batch)`. An event is valid until
// its iterator moves on; what its texts point to, until the batch is filled again.
class event_batch {
 public:
  explicit event_batch(std::size_t room = 64 * 1024) : words_((room + 7) / 8) {}

  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = event;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = event;

    explicit iterator(const char* at, const char* end) noexcept : at_(at), end_(end) { look(); }
    event operator*() const noexcept { return event(view_); }
    iterator& operator++() noexcept {
      at_ += record_.size;
      look();
      return *this;
    }
    bool operator==(const iterator& other) const noexcept { return at_ == other.at_; }

   private:
    void look() noexcept {
      if (at_ == end_) return;
      std::memcpy(&record_, at_, sizeof record_);
      const auto& r = record_;
      const char* channel = at_ + sizeof r;
      const char* payload = channel + r.channel_size + 1;
      const char* reason = payload + r.payload_size + 1;
      view_.kind = r.kind;
      view_.source = r.source;
      view_.gap = r.gap;
      view_.by = r.by;
      view_.healthy = (r.flags & PGWAKE_FLAG_HEALTHY) != 0 ? 1 : 0;
      view_.channel = r.kind == PGWAKE_EVENT_STATE ? nullptr : channel;
      view_.payload = (r.flags & PGWAKE_FLAG_PAYLOAD) != 0 ? payload : nullptr;
      view_.payload_size = r.payload_size;
      view_.reason = r.kind == PGWAKE_EVENT_WAKE ? nullptr : reason;
      view_.id = r.id;
      view_.result = r.result;
      view_.flags = r.flags;
    }

    const char* at_;
    const char* end_;
    pgwake_record record_{};
    pgwake_event view_{};
  };
  iterator begin() const noexcept { return iterator(bytes(), bytes() + used_); }
  iterator end() const noexcept { return iterator(bytes() + used_, bytes() + used_); }

 private:
  friend class listener;
  const char* bytes() const noexcept { return reinterpret_cast<const char*>(words_.data()); }

  std::vector<std::uint64_t> words_;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
};

// One worker: a connection to the hub with an own one behind it. Move-only; closes at its end.
class listener {
 public:
  listener() { open(nullptr); }
  explicit listener(const options& o) { open(o.raw()); }
  listener(listener&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  listener& operator=(listener&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~listener() { pgwake_close(raw_); }

  // True once every notification committed from now on is delivered, or a gap is; false: not within the
  // deadline. Throws error if the channel is refused.
  bool subscribe(const std::string& channel, std::chrono::milliseconds timeout = forever) {
    return done(pgwake_subscribe(raw_, channel.c_str(), number(timeout)), channel);
  }
  // Many at once. Answers those that are not subscribed, with why (enum pgwake_result); empty: all are.
  std::vector<std::pair<std::string, int>> subscribe(const std::vector<std::string>& channels,
                                                     std::chrono::milliseconds timeout = forever) {
    std::vector<const char*> names;
    names.reserve(channels.size());
    for (const auto& c : channels) names.push_back(c.c_str());
    std::vector<int> results(channels.size(), PGWAKE_OK);
    const int r = pgwake_subscribe_many(raw_, names.data(), names.size(), number(timeout), results.data());
    if (r != PGWAKE_OK && r != PGWAKE_NACK && r != PGWAKE_TIMEOUT) throw error(r, "subscribe");
    std::vector<std::pair<std::string, int>> bad;
    for (std::size_t i = 0; i < channels.size(); ++i)
      if (results[i] != PGWAKE_OK) bad.emplace_back(channels[i], results[i]);
    return bad;
  }
  // Does not wait: an event for each channel answers (event::is_subscribed), with this id.
  void subscribe_start(const std::vector<std::string>& channels, std::uint64_t id,
                       std::chrono::milliseconds timeout = forever) {
    std::vector<const char*> names;
    names.reserve(channels.size());
    for (const auto& c : channels) names.push_back(c.c_str());
    check(pgwake_subscribe_start(raw_, names.data(), names.size(), number(timeout), id), "subscribe");
  }
  void unsubscribe(const std::string& channel) { check(pgwake_unsubscribe(raw_, channel.c_str()), channel); }

  // The next event, or nothing when the deadline passed.
  std::optional<event> next(std::chrono::milliseconds timeout = forever) {
    const pgwake_event* e = nullptr;
    if (!done(pgwake_next(raw_, &e, number(timeout)), "next")) return std::nullopt;
    return event(*e);
  }
  // Fills `into` with what waits, at most `max` events (0: all that fit); how many, 0 when
  // the deadline passed.
  std::size_t read(event_batch& into, std::chrono::milliseconds timeout = forever, std::size_t max = 0) {
    into.used_ = into.count_ = 0;
    for (;;) {
      std::size_t used = 0;
      const int r = pgwake_read(raw_, into.words_.data(), into.words_.size() * sizeof into.words_[0], &used,
                                max, number(timeout));
      if (r == PGWAKE_INVALID && used > 0) {  // an event larger than the batch
        into.words_.resize((used + 7) / 8);
        continue;
      }
      if (r < 0) throw error(r, "read");
      into.used_ = used;
      return into.count_ = static_cast<std::size_t>(r);
    }
  }
  // Calls `take(event)` for each event that waits; how many. `take` answers nothing, or true to go on. What
  // it throws comes out of here, and the events behind it wait for the next call.
  template <class Take>
  std::size_t dispatch(Take&& take, std::chrono::milliseconds timeout = forever, std::size_t max = 0) {
    struct context {
      std::remove_reference_t<Take>* take;
      std::exception_ptr thrown;
    } c{&take, nullptr};
    const auto call = [](const pgwake_event* e, void* user) -> int {
      auto& in = *static_cast<context*>(user);
      try {
        if constexpr (std::is_void_v<std::invoke_result_t<Take&, event>>) {
          std::invoke(*in.take, event(*e));
          return 0;
        } else {
          return std::invoke(*in.take, event(*e)) ? 0 : 1;
        }
      } catch (...) {
        in.thrown = std::current_exception();
        return 1;
      }
    };
    const int r = pgwake_dispatch(raw_, call, &c, max, number(timeout));
    if (c.thrown) std::rethrow_exception(c.thrown);
    if (r < 0) throw error(r, "dispatch");
    return static_cast<std::size_t>(r);
  }

  // Readable while events wait.
  int fd() const {
    const int fd = pgwake_fd(raw_);
    if (fd < 0) throw error(fd, "fd");
    return fd;
  }
  // One end of a pair of sockets that gets a byte when an event comes while none waited; the
  // caller's to close.
  int wake_socket() const {
    const int fd = pgwake_wake_socket(raw_);
    if (fd < 0) throw error(fd, "wake_socket");
    return fd;
  }
  std::string state_json() const {
    std::string text(8 * 1024, '\0');
    const int size = pgwake_state_json(raw_, text.data(), text.size());
    if (size < 0) throw error(size, "state");
    text.resize(static_cast<std::size_t>(size));
    return text;
  }
  pgwake_state state() const {
    pgwake_state s{};
    s.size = sizeof s;
    check(pgwake_get_state(raw_, &s), "state");
    return s;
  }
  void shutdown() { check(pgwake_shutdown(raw_), "shutdown"); }
  // In a forked child, with what was subscribed; a gap of the cause "forked" on each channel follows.
  void reopen_subscribed() { check(pgwake_reopen_subscribed(raw_), "reopen"); }
  void reopen() { check(pgwake_reopen(raw_), "reopen"); }
  pgwake_handle* raw() const noexcept { return raw_; }

 private:
  void open(const pgwake_options* o) { check(pgwake_open(&raw_, o), "open"); }
  static int number(std::chrono::milliseconds t) {
    if (t.count() < 0) return -1;
    return t.count() > 0x7fffffff ? 0x7fffffff : static_cast<int>(t.count());
  }
  static void check(int result, const std::string& what_failed) {
    if (result != PGWAKE_OK) throw error(result, what_failed);
  }
  static bool done(int result, const std::string& what_failed) {
    if (result == PGWAKE_TIMEOUT) return false;
    check(result, what_failed);
    return true;
  }

  pgwake_handle* raw_ = nullptr;
};

}  // namespace pgwake

#endif
