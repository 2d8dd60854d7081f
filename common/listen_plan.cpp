#include "common/listen_plan.hpp"

#include <algorithm>

#include "common/channel.hpp"

namespace pgwake {

bool listen_plan::want(const std::string& channel, std::uint64_t asker) {
  auto [it, fresh] = entries_.try_emplace(channel);
  auto& e = it->second;
  if (fresh || !e.wanted) ++wanted_;
  e.wanted = true;
  if (fresh) enqueue(channel, e, asker);
  if (e.now == state::active) lingering_.erase({e.since, channel});
  return e.now == state::active;
}

void listen_plan::unwant(const std::string& channel, steady_time now) {
  const auto it = entries_.find(channel);
  if (it == entries_.end() || !it->second.wanted) return;
  auto& e = it->second;
  e.wanted = false;
  --wanted_;
  unmark(e);
  if (e.now == state::active) {
    linger(channel, e, now);
  } else if (e.now == state::waiting) {
    dequeue(channel, e);
    entries_.erase(it);  // a name left over in groups_ is skipped there
  }
}

// It did not fail when it was last tried, or what it did no longer counts.
void listen_plan::unmark(entry& e) {
  if (std::exchange(e.failures, 0) > 0) --failing_;
}

std::vector<std::string> listen_plan::drop_too_long() {
  std::vector<std::string> out;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->first.size() <= max_channel_bytes || it->second.now != state::waiting) {
      ++it;
      continue;
    }
    if (it->second.wanted) --wanted_;
    unmark(it->second);
    dequeue(it->first, it->second);
    out.push_back(it->first);
    it = entries_.erase(it);
  }
  return out;
}

bool listen_plan::active(const std::string& channel) const {
  const auto it = entries_.find(channel);
  return it != entries_.end() && it->second.now == state::active;
}

void listen_plan::collect_active(std::unordered_set<std::string>& out) const {
  for (const auto& [channel, e] : entries_)
    if (e.wanted && e.now == state::active) out.insert(channel);
}

void listen_plan::enqueue(const std::string& channel, entry& e, std::uint64_t asker) {
  if (std::exchange(e.queued, true)) return;
  auto& last = rounds_[asker];
  last = std::max(last, round_) + 1;
  e.at = {last, ++places_};
  queue_.emplace(e.at, channel);
}

void listen_plan::dequeue(const std::string& channel, entry& e) {
  if (std::exchange(e.queued, false)) queue_.erase(e.at);
  retries_.erase({e.since, channel});
  forget_rounds();
}

// Who has nothing ahead of the others is like one who never asked.
void listen_plan::forget_rounds() {
  if (queue_.empty())
    rounds_.clear();
  else if (rounds_.size() > 2 * queue_.size() + 64)
    std::erase_if(rounds_, [this](const auto& r) { return r.second <= round_; });
}

void listen_plan::set_state(entry& e, state s) {
  const auto counts = [](state x) { return x == state::active || x == state::leaving; };
  if (counts(e.now) && !counts(s)) --active_;
  if (!counts(e.now) && counts(s)) ++active_;
  e.now = s;
}

void listen_plan::linger(const std::string& channel, entry& e, steady_time now) {
  e.since = now;
  lingering_.emplace(now, channel);
}

std::optional<listen_plan::batch> listen_plan::next(steady_time now) {
  if (in_flight_) return std::nullopt;
  auto b = next_taking_back();
  // Turns, so that a stream of new channels cannot hold back UNLISTEN for ever.
  const bool listen_first = !last_was_listen_ && give_up_ == 0;
  if (!b) b = listen_first ? next_listen(now) : next_unlisten(now);
  if (!b) b = listen_first ? next_unlisten(now) : next_listen(now);
  if (!b) {
    last_was_listen_ = false;
    return b;
  }
  last_was_listen_ = b->why == purpose::listen;
  in_flight_ = b;
  sent_ = now;
  return b;
}

// Puts a waiting channel into the batch; false when it is no longer for LISTENing.
bool listen_plan::take(const std::string& channel, batch& b) {
  const auto it = entries_.find(channel);
  if (it == entries_.end() || it->second.now != state::waiting || !it->second.wanted) return false;
  dequeue(channel, it->second);
  set_state(it->second, state::listening);
  b.sql += b.names.empty() ? "LISTEN " : ";LISTEN ";
  b.sql += quote_identifier(channel);
  b.names.push_back(channel);
  return true;
}

std::optional<listen_plan::batch> listen_plan::next_listen(steady_time now) {
  while (!retries_.empty() && retries_.begin()->first <= now) {
    const auto name = retries_.begin()->second;
    retries_.erase(retries_.begin());
    if (const auto it = entries_.find(name); it != entries_.end()) enqueue(name, it->second);
  }
  batch b;
  while (b.names.empty() && !groups_.empty()) {
    const auto group = std::move(groups_.front());
    groups_.pop_front();
    for (const auto& name : group) take(name, b);
  }
  while (groups_.empty() && !queue_.empty() && b.names.size() < most_names_) {
    if (fruitless_ > 0 && !b.names.empty()) break;  // what just failed alone stays alone
    const auto name = queue_.begin()->second;
    round_ = queue_.begin()->first.first;
    if (!take(name, b)) queue_.erase(queue_.begin());
  }
  restoring_ = restoring_ && !b.names.empty();
  if (b.names.empty()) return std::nullopt;
  b.statements = b.names.size();
  if (compare_) {
    for (std::size_t i = 0; i < b.names.size(); ++i)
      b.sql += (i == 0 ? ";SELECT " : ",") + quote_literal(b.names[i]) + "::pg_catalog.name";
    ++b.statements;
  }
  return b;
}

std::optional<listen_plan::batch> listen_plan::next_unlisten(steady_time now) {
  if (now < unlisten_not_before_) return std::nullopt;
  batch b;
  b.why = purpose::unlisten;
  while (!lingering_.empty() && b.names.size() < most_names_) {
    const auto [since, name] = *lingering_.begin();
    if (give_up_ == 0 && since + limits_.linger > now) break;
    if (give_up_ > 0) --give_up_;
    lingering_.erase(lingering_.begin());
    set_state(entries_.at(name), state::leaving);
    b.sql += b.names.empty() ? "UNLISTEN " : ";UNLISTEN ";
    b.sql += quote_identifier(name);
    b.names.push_back(name);
  }
  if (lingering_.empty()) give_up_ = 0;
  if (b.names.empty()) return std::nullopt;
  b.statements = b.names.size();
  return b;
}

// UNLISTEN reads a name just as LISTEN did, so the same names take back what they did. A channel that is
// really wanted may be what they are to the server: it is LISTENed again in the same transaction, so it
// never is inactive.
std::optional<listen_plan::batch> listen_plan::next_taking_back() {
  if (others_.empty()) return std::nullopt;
  batch b;
  b.why = purpose::take_back;
  std::set<std::string> touched;
  for (auto& other : std::exchange(others_, {})) {
    b.sql += "UNLISTEN " + quote_identifier(other.name) + ";";
    b.names.push_back(std::move(other.name));
    touched.insert(std::move(other.as_it_is));
  }
  b.statements = b.names.size();
  for (const auto& channel : touched) {
    if (!active(channel)) continue;
    b.sql += "LISTEN " + quote_identifier(channel) + ";";
    ++b.statements;
  }
  b.sql.pop_back();
  return b;
}

void listen_plan::done(const outcome& result, steady_time now, std::vector<event>& out) {
  if (!in_flight_) return;
  auto b = std::move(*in_flight_);
  in_flight_.reset();
  if (result.ok) learn_pace(b.names.size(), now);
  switch (b.why) {
    case purpose::listen:
      return listened(std::move(b.names), result, now, out);
    case purpose::unlisten:
      return unlistened(b.names, result, now, out);
    case purpose::take_back:
      if (!result.ok)
        out.push_back(
            {event::kind::replace_session, "", code::listen_failed, result.sqlstate, result.message});
      return;
  }
}

// From how long the server took for them. A few names say nothing of what each of many costs.
void listen_plan::learn_pace(std::size_t names, steady_time now) {
  const auto took = now - sent_;
  round_trip_ = std::min(round_trip_.value_or(took), took);
  if (restoring_ || names < limits_.smallest_batch) return;
  const auto may_cost = std::max<steady_time::duration>(limits_.pause, *round_trip_);
  const auto cost = std::max<steady_time::duration>(took - *round_trip_, std::chrono::microseconds(1));
  const auto fitting =
      static_cast<double>(names) * static_cast<double>(may_cost.count()) / static_cast<double>(cost.count());
  // Fewer at once, more by and by, and only after as many as are allowed now.
  auto most = std::min(fitting, static_cast<double>(2 * most_names_));
  if (names < most_names_) most = std::min(most, static_cast<double>(most_names_));
  most_names_ = std::min(limits_.batch, std::max(limits_.smallest_batch, static_cast<std::size_t>(most)));
}

void listen_plan::listened(std::vector<std::string> names, const outcome& result, steady_time now,
                           std::vector<event>& out) {
  if (result.ok) return committed(names, result, now, out);
  if (names.size() == 1) return failed_alone(names.front(), result, now, out);
  split(std::move(names));
}

void listen_plan::committed(const std::vector<std::string>& names, const outcome& result, steady_time now,
                            std::vector<event>& out) {
  fruitless_ = 0;
  if (compare_ && result.row.size() != names.size()) {
    out.push_back({event::kind::replace_session, "", code::listen_failed, "",
                   "the server does not tell how it has the names of channels"});
    return;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& name = names[i];
    if (compare_ && result.row[i] != name) {
      has_another_name(name, result.row[i].value_or(""), out);
      continue;
    }
    auto& e = entries_.at(name);
    set_state(e, state::active);
    unmark(e);
    if (!e.wanted) linger(name, e, now);
    out.push_back({event::kind::activated, name, code::listen_failed, "", ""});
  }
}

void listen_plan::has_another_name(const std::string& name, std::string as_it_is, std::vector<event>& out) {
  const auto it = entries_.find(name);
  if (it->second.wanted) {
    --wanted_;
    unmark(it->second);
    const bool cut = name.starts_with(as_it_is);
    out.push_back({event::kind::refused, name, code::invalid_channel, cut ? "42622" : "",
                   cut ? "the channel name is too long in the server's encoding"
                       : "the server's encoding has no such name: to the server it is " + as_it_is});
  }
  entries_.erase(it);
  others_.push_back({name, std::move(as_it_is)});
}

// Which of them is to blame shows when the halves are tried, down to one.
void listen_plan::split(std::vector<std::string> names) {
  const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
  for (const auto& name : names) {
    const auto it = entries_.find(name);
    set_state(it->second, state::waiting);
    if (!it->second.wanted) entries_.erase(it);
  }
  groups_.emplace_front(middle, names.end());
  groups_.emplace_front(names.begin(), middle);
}

void listen_plan::failed_alone(const std::string& name, const outcome& result, steady_time now,
                               std::vector<event>& out) {
  const auto it = entries_.find(name);
  auto& e = it->second;
  const bool hopeless = result.sqlstate.starts_with("22") || result.sqlstate.starts_with("42");
  if (!e.wanted || hopeless) {
    if (e.wanted) {
      --wanted_;
      unmark(e);
      out.push_back({event::kind::refused, name, code::listen_failed, result.sqlstate, result.message});
    }
    set_state(e, state::waiting);
    entries_.erase(it);
    return;
  }
  set_state(e, state::waiting);
  if (e.failures == 0) ++failing_;
  e.since = now + backoff_delay(limits_.retry, ++e.failures, jitter_.next());
  retries_.emplace(e.since, name);
  out.push_back({event::kind::retrying, name, code::listen_failed, result.sqlstate, result.message});
  if (++fruitless_ >= limits_.fruitless_before_replacing && active_ == 0 && failing_ == wanted_)
    out.push_back({event::kind::replace_session, name, code::listen_failed, result.sqlstate, result.message});
}

void listen_plan::unlistened(const std::vector<std::string>& names, const outcome& result, steady_time now,
                             std::vector<event>& out) {
  if (!result.ok) unlisten_not_before_ = now + limits_.retry.cap;
  for (const auto& name : names) {
    const auto it = entries_.find(name);
    auto& e = it->second;
    set_state(e, result.ok ? state::waiting : state::active);
    if (result.ok && e.wanted) {
      enqueue(name, e);
    } else if (result.ok) {
      entries_.erase(it);
      out.push_back({event::kind::released, name, code::listen_failed, "", ""});
    } else if (e.wanted) {
      out.push_back({event::kind::activated, name, code::listen_failed, "", ""});
    } else {
      linger(name, e, now);
    }
  }
}

void listen_plan::session_lost() {
  in_flight_.reset();
  groups_.clear();
  retries_.clear();
  lingering_.clear();
  others_.clear();
  fruitless_ = 0;
  failing_ = 0;
  give_up_ = 0;
  unlisten_not_before_ = {};
  restoring_ = true;
  most_names_ = limits_.batch;
  round_trip_.reset();
  for (auto it = entries_.begin(); it != entries_.end();) {
    auto& e = it->second;
    set_state(e, state::waiting);
    e.failures = 0;
    if (e.wanted) {
      enqueue(it->first, e);
      ++it;
    } else {
      it = entries_.erase(it);
    }
  }
}

std::optional<steady_time> listen_plan::deadline() const {
  if (in_flight_) return std::nullopt;
  std::optional<steady_time> at;
  if (!retries_.empty()) at = retries_.begin()->first;
  if (!lingering_.empty()) {
    const auto due = std::max(lingering_.begin()->first + limits_.linger, unlisten_not_before_);
    at = at ? std::min(*at, due) : due;
  }
  return at;
}

void listen_plan::shrink(std::size_t most) {
  const auto over = entries_.size() > most ? entries_.size() - most : 0;
  give_up_ = std::min(over, lingering_.size());
}

}  // namespace pgwake
