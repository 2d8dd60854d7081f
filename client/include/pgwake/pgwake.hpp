// pgwake for C++20: pgwake.h with ownership, exceptions and types. Header-only. What each call promises
// (threads, lifetimes, deadlines) is said in pgwake.h; it is the same here, call by call.
#ifndef PGWAKE_HPP
#define PGWAKE_HPP

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
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
      : std::runtime_error(what_failed + ": " + text(result)), result_(result) {}
  int result() const noexcept { return result_; }  // enum pgwake_result
  bool nack() const noexcept { return result_ == PGWAKE_NACK; }
  bool forked() const noexcept { return result_ == PGWAKE_FORKED; }
  bool closed() const noexcept { return result_ == PGWAKE_CLOSED; }

 private:
  static std::string text(int result) {
    const std::string more = pgwake_last_error();
    return more.empty() ? pgwake_strerror(result) : more;
  }
  int result_;
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
  const pgwake_event& raw() const noexcept { return *raw_; }

 private:
  const pgwake_event* raw_;
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
  void unsubscribe(const std::string& channel) { check(pgwake_unsubscribe(raw_, channel.c_str()), channel); }

  // The next event, or nothing when the deadline passed.
  std::optional<event> next(std::chrono::milliseconds timeout = forever) {
    const pgwake_event* e = nullptr;
    if (!done(pgwake_next(raw_, &e, number(timeout)), "next")) return std::nullopt;
    return event(*e);
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
  pgwake_state state() const {
    pgwake_state s{};
    s.size = sizeof s;
    check(pgwake_get_state(raw_, &s), "state");
    return s;
  }
  void shutdown() { check(pgwake_shutdown(raw_), "shutdown"); }
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
