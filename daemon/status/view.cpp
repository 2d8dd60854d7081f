#include "daemon/status/view.hpp"

#include <algorithm>
#include <array>

#include "daemon/status/exit_codes.hpp"
#include "daemon/status/text.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t history = 60;
constexpr std::uint64_t late_ms = 1'000;        // the oldest unsent frame is yellow from here
constexpr std::uint64_t very_late_ms = 10'000;  // and red from here

constexpr std::chrono::milliseconds late_answer{2'500};
constexpr std::chrono::seconds told_for{5};

constexpr std::array order_names = {"unsent", "oldest", "out/s", "channels", "name", "number"};
constexpr std::array channel_order_names = {"workers", "name"};

enum class ink { plain, bold, dim, green, yellow, red, title };

const char* sequence(ink colour) {
  switch (colour) {
    case ink::plain:
      return "";
    case ink::bold:
      return "\x1b[1m";
    case ink::dim:
      return "\x1b[2m";
    case ink::green:
      return "\x1b[1;32m";
    case ink::yellow:
      return "\x1b[33m";
    case ink::red:
      return "\x1b[1;31m";
    case ink::title:
      return "\x1b[7m";
  }
  return "";
}

double per_second(std::uint64_t before, std::uint64_t after, double seconds) {
  return after > before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

void remember(std::deque<double>& past, double value) {
  past.push_back(value);
  if (past.size() > history) past.pop_front();
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

// Puts lines together: text first, cut to the screen, colours around it afterwards.
class status_view::painter {
 public:
  explicit painter(const look& how) : how_(how) {}

  std::size_t columns() const { return how_.columns; }
  std::size_t rows_left() const { return how_.rows > rows_ ? how_.rows - rows_ : 0; }
  const look& how() const { return how_; }
  const char* dot() const { return how_.utf8 ? " · " : " | "; }

  // A piece of the current line.
  painter& put(std::string_view text, ink colour = ink::plain) {
    const auto room = how_.columns - used_;
    const auto shown = cut(text, room);
    used_ += columns_of(shown);
    const bool coloured = how_.colours && colour != ink::plain && !shown.empty();
    if (coloured) out_ += sequence(colour);
    out_ += shown;
    if (coloured) out_ += "\x1b[0m";
    return *this;
  }
  // The rest of the line, with `text` at its right end.
  void end(std::string_view text = {}, ink colour = ink::plain) {
    if (!text.empty() && used_ + columns_of(text) < how_.columns) {
      put(std::string(how_.columns - used_ - columns_of(text), ' '));
      put(text, colour);
    }
    out_ += '\n';
    used_ = 0;
    ++rows_;
  }
  void bar(std::string_view text, ink colour) {
    put(left_aligned(text, how_.columns), colour);
    end();
  }
  void rule() {
    std::string line;
    for (std::size_t i = 0; i < how_.columns; ++i) line += how_.utf8 ? "─" : "-";
    put(line, ink::dim);
    end();
  }
  void paragraph(std::string_view text, ink colour) {
    auto lines = wrapped("  ", text, how_.columns);
    while (!lines.empty()) {
      const auto at = lines.find('\n');
      put(lines.substr(0, at), colour);
      end();
      lines.erase(0, at + 1);
    }
  }
  // The last `width` values as bars, against their own greatest.
  std::string graph(const std::deque<double>& values, std::size_t width) const {
    constexpr std::array<const char*, 9> bars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    if (!how_.utf8) return std::string(width, ' ');
    double most = 0;
    for (const double v : values) most = std::max(most, v);
    std::string out;
    for (std::size_t i = 0; i < width; ++i) {
      const auto back = width - i;
      const double v = back <= values.size() ? values[values.size() - back] : 0;
      const auto level = most > 0 ? static_cast<std::size_t>(v / most * 8 + 0.999) : 0;
      out += bars[std::min<std::size_t>(level, 8)];
    }
    return out;
  }
  std::string take() { return std::move(out_); }

 private:
  const look& how_;
  std::string out_;
  std::size_t used_ = 0;
  std::size_t rows_ = 0;
};

void status_view::observe(hub_status s, steady_time now) {
  const double seconds = std::chrono::duration<double>(now - last_at_).count();
  // Another run of the hub counts from 0 again.
  if (last_ && last_->hub == s.hub)
    rate(s, seconds);
  else  // whose numbers are other workers'
    rates_ = {}, by_worker_.clear(), in_.clear(), out_.clear(), selected_.reset(), victim_.reset();
  last_ = std::move(s);
  sort();
  if (!selected_row()) selected_.reset();
  last_at_ = now;
  failure_.reset();
  failing_since_.reset();
}

void status_view::rate(const hub_status& s, double seconds) {
  rates_.notifications = per_second(last_->totals.notifications, s.totals.notifications, seconds);
  rates_.delivered = per_second(last_->totals.delivered, s.totals.delivered, seconds);
  rates_.coalesced = per_second(last_->totals.coalesced, s.totals.coalesced, seconds);
  remember(in_, rates_.notifications);
  remember(out_, rates_.delivered);
  std::unordered_map<std::uint64_t, const hub_status::worker*> before;
  for (const auto& w : last_->workers) before.emplace(w.id, &w);
  by_worker_.clear();
  for (const auto& w : s.workers) {
    const auto it = before.find(w.id);
    if (it == before.end()) continue;
    by_worker_[w.id] = {per_second(it->second->delivered, w.delivered, seconds),
                        per_second(it->second->coalesced, w.coalesced, seconds)};
  }
}

void status_view::unreachable(hub_failure why, steady_time now) {
  failure_ = std::move(why);
  if (!failing_since_) failing_since_ = now;
}

bool status_view::before(const hub_status::worker& a, const hub_status::worker& b) const {
  const auto rate = [&](const hub_status::worker& w) {
    const auto found = by_worker_.find(w.id);
    return found != by_worker_.end() ? found->second.delivered : 0;
  };
  switch (order_) {
    case order::unsent:
      break;
    case order::oldest:
      if (a.oldest_ms != b.oldest_ms) return a.oldest_ms > b.oldest_ms;
      break;
    case order::delivered:
      if (rate(a) != rate(b)) return rate(a) > rate(b);
      if (a.delivered != b.delivered) return a.delivered > b.delivered;
      break;
    case order::channels:
      if (a.channel_count != b.channel_count) return a.channel_count > b.channel_count;
      break;
    case order::name:
      if (a.name != b.name) return a.name < b.name;
      break;
    case order::number:
      return a.id < b.id;
  }
  return false;  // then the slowest first
}

void status_view::sort() {
  if (!last_) return;
  slowest_first(last_->workers);
  std::stable_sort(last_->workers.begin(), last_->workers.end(),
                   [&](const auto& a, const auto& b) { return before(a, b); });
  std::stable_sort(last_->channels.begin(), last_->channels.end(), [&](const auto& a, const auto& b) {
    if (channel_order_ == channel_order::workers && a.workers != b.workers) return a.workers > b.workers;
    return a.name < b.name;
  });
}

std::optional<std::size_t> status_view::selected_row() const {
  if (!last_ || !selected_) return std::nullopt;
  const auto& all = last_->workers;
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& w) { return w.id == *selected_; });
  return it == all.end() ? std::nullopt : std::optional(static_cast<std::size_t>(it - all.begin()));
}

void status_view::move(std::ptrdiff_t rows) {
  const auto moved = [rows](std::size_t from) {
    return rows < 0 ? from - std::min(from, static_cast<std::size_t>(-rows))
                    : from + static_cast<std::size_t>(rows);
  };
  if (show_channels_) {
    first_row_ = moved(first_row_);
    return;
  }
  if (!last_ || last_->workers.empty()) return;
  const auto at = selected_row();
  const auto to = std::min(at ? moved(*at) : rows > 1 ? moved(0) : 0, last_->workers.size() - 1);
  selected_ = last_->workers[to].id;
  if (to < first_row_) first_row_ = to;
  if (page_ > 0 && to >= first_row_ + page_) first_row_ = to + 1 - page_;
}

void status_view::move_home() {
  first_row_ = 0;
  selected_.reset();
}

void status_view::switch_table() {
  show_channels_ = !show_channels_;
  first_row_ = 0;
}

void status_view::next_order() {
  if (show_channels_)
    channel_order_ = channel_order_ == channel_order::name ? channel_order::workers : channel_order::name;
  else
    order_ = order_ == order::number ? order::unsent : static_cast<order>(static_cast<int>(order_) + 1);
  sort();
}

void status_view::ask_evict(steady_time now) {
  if (!show_channels_ && selected_row())
    victim_ = selected_;
  else
    tell("select a worker first, with the arrows", now);
}

std::optional<std::uint64_t> status_view::answer(bool yes) {
  const auto out = yes ? victim_ : std::nullopt;
  victim_.reset();
  return out;
}

void status_view::tell(std::string message, steady_time now) {
  told_ = std::move(message);
  told_until_ = now + told_for;
}

int status_view::exit_code() const {
  if (failure_ && failure_->unanswered()) return status_no_answer;
  if (failure_) return failure_->running() ? status_degraded : status_not_running;
  return last_ && last_->healthy ? status_healthy : status_degraded;
}

std::string status_view::screen(const look& how, steady_time now) {
  painter p(how);
  const auto age = std::chrono::duration_cast<millis>(now - last_at_);
  const bool late = last_ && age >= late_answer;
  if (failure_) {
    const bool no_socket = failure_->what == hub_failure::kind::no_socket;
    const bool removed = failure_->what == hub_failure::kind::removed;
    p.put("pgwaked").end(how.clock, ink::dim);
    p.put(how.utf8 ? "● " : "* ", ink::red);
    p.put(no_socket             ? "STOPPING OR STARTING"
          : removed             ? "SOCKET REMOVED"
          : failure_->running() ? "NO ANSWER"
                                : "NOT RUNNING",
          ink::red);
    p.put(" for " + short_duration(std::chrono::duration_cast<millis>(now - *failing_since_)) +
          ", asking every second");
    p.end();
    p.paragraph(failure_->message, ink::plain);
    if (last_) p.put("  What it said last:", ink::dim).end();
  } else if (last_) {
    p.put("pgwaked " + printable(last_->version), ink::bold)
        .put(std::string(p.dot()) + "PID " + std::to_string(last_->pid) + p.dot() + "up " +
             short_duration(milliseconds_of(last_->uptime_s)) + p.dot() + printable(socket_))
        .end(late ? "answers late: " + short_duration(age) + " old" : how.clock,
             late ? ink::yellow : ink::dim);
    header(p);
  }
  if (last_) {
    numbers(p);
    show_channels_ ? channels(p) : workers(p);
  }
  while (p.rows_left() > 1) p.end();
  footer(p, now);
  return p.take();
}

// The question, what came of the last one, or the keys.
void status_view::footer(painter& p, steady_time now) const {
  if (victim_) {
    std::string who = "worker " + std::to_string(*victim_);
    for (const auto& w : last_->workers)
      if (w.id == *victim_)
        who += " (" + (w.name.empty() ? "" : printable(w.name) + ", ") + "PID " + std::to_string(w.pid) + ")";
    return p.bar(" Evict " + who + "? y yes, any other key no", ink::title);
  }
  if (now < told_until_) return p.bar(" " + told_, ink::title);
  const std::string arrows = p.how().utf8 ? "↑ ↓" : "up down";
  if (show_channels_)
    return p.bar(" q quit   Tab workers   s sort: " +
                     std::string(channel_order_names.at(static_cast<std::size_t>(channel_order_))) + "   " +
                     arrows + " scroll",
                 ink::title);
  p.bar(" q quit   Tab channels   s sort: " + std::string(order_names.at(static_cast<std::size_t>(order_))) +
            "   " + arrows + " select   e evict",
        ink::title);
}

void status_view::header(painter& p) const {
  const auto& s = *last_;
  const auto& up = s.upstream;
  const auto colour = s.healthy ? ink::green : s.draining ? ink::yellow : ink::red;
  p.put(p.how().utf8 ? "● " : "* ", colour);
  if (!s.healthy) {
    p.put(s.draining ? "DRAINING" : "DEGRADED", colour).end();
    p.paragraph(health_text(s), ink::plain);
    return;
  }
  p.put("HEALTHY", colour).put("  " + printable(up.database) + " at " + printable(up.server));
  const auto version = server_version_name(up.server_version);
  if (!version.empty()) p.put(p.dot() + version);
  if (up.since_s) p.put(std::string(p.dot()) + "live " + short_duration(milliseconds_of(*up.since_s)));
  p.put(std::string(p.dot()) + "backend " + std::to_string(up.backend_pid));
  p.end();
}

void status_view::numbers(painter& p) const {
  const auto& s = *last_;
  const auto& t = s.totals;
  const auto cell = [&](const char* label, const std::string& value, ink colour, std::size_t width) {
    p.put("  ").put(left_aligned(label, 11), ink::dim);
    p.put(right_aligned(value, width), colour);
  };
  const auto worry = [](std::uint64_t n) { return n > 0 ? ink::yellow : ink::plain; };
  const auto graph_width = p.columns() >= 76 ? std::min(p.columns() - 68, history) : 0;
  p.rule();
  cell("workers", grouped(t.workers), ink::bold, 9);
  cell("in/s", short_number(rates_.notifications), ink::bold, 7);
  p.put(" " + p.graph(in_, graph_width), ink::green);
  cell("reconnects", grouped(s.upstream.reconnects), worry(s.upstream.reconnects), 7);
  p.end();
  cell("channels", grouped(t.channels), ink::bold, 9);
  cell("out/s", short_number(rates_.delivered), ink::bold, 7);
  p.put(" " + p.graph(out_, graph_width), ink::green);
  cell("evicted", grouped(t.evicted), worry(t.evicted), 7);
  p.end();
  cell("unsent", short_bytes(t.outbox_bytes), t.outbox_bytes > 0 ? ink::yellow : ink::bold, 9);
  cell("coalesced/s", short_number(rates_.coalesced), ink::bold, 7);
  p.put(std::string(graph_width + 1, ' '));
  const auto queue = s.upstream.queue_usage.value_or(0) * 100;
  cell("queue used", s.upstream.queue_usage ? short_number(queue) + " %" : "-",
       queue >= 10 ? ink::red : ink::plain, 7);
  p.end();
}

// What the table has room for, given what there is; the scroll position is kept inside.
void status_view::rows_of(painter& p, std::size_t count, const char* things) {
  page_ = p.rows_left() > 1 ? p.rows_left() - 1 : 0;  // the last row is the footer
  const auto most = count > page_ ? count - page_ : 0;
  first_row_ = std::min(first_row_, most);
  if (count == 0) p.put(std::string("  no ") + things, ink::dim).end();
}

void status_view::workers(painter& p) {
  // Fixed columns and the spaces before them; the name takes the rest.
  constexpr std::size_t fixed = 6 + 8 + 6 + 2 + 6 + 9 + 7 + 7 + 6 + 7;
  const std::size_t name = p.columns() > fixed + 8 ? p.columns() - fixed : 8;
  p.bar(right_aligned("WORKER", 6) + right_aligned("PID", 8) + right_aligned("UID", 6) + "  " +
            left_aligned("NAME", name) + right_aligned("CHANS", 6) + right_aligned("UNSENT", 9) +
            right_aligned("FRAMES", 7) + right_aligned("OLDEST", 7) + right_aligned("OUT/s", 6) +
            right_aligned("COAL/s", 7),
        ink::title);
  const auto& all = last_->workers;
  rows_of(p, all.size(), "workers");
  for (std::size_t i = first_row_; i < all.size() && i < first_row_ + page_; ++i) {
    const auto& w = all[i];
    const auto found = by_worker_.find(w.id);
    const auto r = found != by_worker_.end() ? found->second : worker_rates{};
    const auto age = w.oldest_ms.value_or(0);
    const auto colour = age >= very_late_ms ? ink::red : age >= late_ms ? ink::yellow : ink::plain;
    const bool chosen = selected_ == w.id;
    p.put(right_aligned((chosen ? ">" : "") + std::to_string(w.id), 6) +
              right_aligned(std::to_string(w.pid), 8) + right_aligned(std::to_string(w.uid), 6) + "  ",
          chosen ? ink::title : ink::plain);
    p.put(left_aligned(w.name.empty() ? "-" : printable(w.name), name), chosen ? ink::title : ink::bold);
    p.put(right_aligned(short_number(static_cast<double>(w.channel_count)), 6));
    p.put(right_aligned(short_bytes(w.outbox_bytes), 9) +
              right_aligned(short_number(static_cast<double>(w.outbox_frames)), 7) +
              right_aligned(w.oldest_ms ? compact_duration(millis(age)) : "-", 7),
          colour);
    p.put(right_aligned(short_number(r.delivered), 6) + right_aligned(short_number(r.coalesced), 7));
    p.end();
  }
}

void status_view::channels(painter& p) {
  const std::size_t name = p.columns() > 40 ? p.columns() - 30 : 10;
  p.bar(left_aligned("  CHANNEL", name) + right_aligned("WORKERS", 9) + "  STATE", ink::title);
  const auto& all = last_->channels;
  rows_of(p, all.size(), "channels");
  for (std::size_t i = first_row_; i < all.size() && i < first_row_ + page_; ++i) {
    const auto& c = all[i];
    p.put(left_aligned("  " + printable(c.name), name), ink::bold);
    p.put(right_aligned(grouped(c.workers), 9) + "  ");
    p.put(c.active ? "active" : "waiting for LISTEN", c.active ? ink::plain : ink::yellow);
    p.end();
  }
}

}  // namespace pgwaked
