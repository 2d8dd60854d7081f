#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/time.hpp"
#include "daemon/operator/hub_failure.hpp"
#include "daemon/status/model.hpp"

namespace pgwaked {

// The live view without its terminal: observations and keys in, a screen as text out. Pure.
class status_view {
 public:
  explicit status_view(std::string socket) : socket_(std::move(socket)) {}

  void observe(hub_status s, pgwake::steady_time now);
  // The hub could not be asked. What was seen last stays on the screen, marked as old.
  void unreachable(hub_failure why, pgwake::steady_time now);

  // Selects a worker so many rows further down, or scrolls the channels.
  void move(std::ptrdiff_t rows);
  void move_home();
  void switch_table();
  // The table's rows in another order: the next of those there are.
  void next_order();

  // Asks whether the selected worker is to be evicted; the answer ends the question. The worker, if
  // it is yes.
  void ask_evict(pgwake::steady_time now);
  bool asks() const { return victim_.has_value(); }
  std::optional<std::uint64_t> answer(bool yes);
  // Shown for some seconds.
  void tell(std::string message, pgwake::steady_time now);

  struct look {
    std::size_t columns = 80, rows = 24;
    bool colours = true;
    bool utf8 = true;
    std::string clock;  // shown at the right of the first line
  };
  // Lines with a newline after each, none wider than `columns`, at most `rows`. Escape sequences only with
  // colours, and only our own.
  std::string screen(const look& how, pgwake::steady_time now);
  // Rows of the table that the last screen had room for.
  std::size_t page() const { return page_; }

  // As `pgwaked status` would exit.
  int exit_code() const;

 private:
  struct rates {
    double notifications = 0, delivered = 0, coalesced = 0;
  };
  struct worker_rates {
    double delivered = 0, coalesced = 0;
  };
  enum class order { unsent, oldest, delivered, channels, name, number };
  enum class channel_order { workers, name };
  class painter;

  void rate(const hub_status& s, double seconds);
  void header(painter& p) const;
  void numbers(painter& p) const;
  void workers(painter& p);
  void channels(painter& p);
  void rows_of(painter& p, std::size_t count, const char* things);
  void footer(painter& p, pgwake::steady_time now) const;
  void sort();
  bool before(const hub_status::worker& a, const hub_status::worker& b) const;
  // Its place in the table.
  std::optional<std::size_t> selected_row() const;

  std::string socket_;
  std::optional<hub_status> last_;
  pgwake::steady_time last_at_{};
  std::optional<hub_failure> failure_;  // of the last attempt to ask
  std::optional<pgwake::steady_time> failing_since_;
  rates rates_;
  std::unordered_map<std::uint64_t, worker_rates> by_worker_;
  std::deque<double> in_, out_;  // rates so far, the newest last
  bool show_channels_ = false;
  std::size_t first_row_ = 0;
  std::size_t page_ = 0;
  order order_ = order::unsent;
  channel_order channel_order_ = channel_order::workers;
  std::optional<std::uint64_t> selected_;  // a worker, whose row may move
  std::optional<std::uint64_t> victim_;    // about whom is asked
  std::string told_;
  pgwake::steady_time told_until_{};
};

}  // namespace pgwaked
