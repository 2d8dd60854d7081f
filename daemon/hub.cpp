#include "daemon/hub.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace pgwaked {

using namespace pgwake;

namespace {
// What one owed ack will take, about; counted beforehand for subs that repeat themselves unanswered.
constexpr std::size_t owed_ack_bytes = 64;
}  // namespace

struct hub::subscription {
  worker* who;
  outbox_marks marks;
  std::uint32_t pending = 0;  // subs without their ack
  bool subscribed = true;     // false: unsubscribed, only the acks are owed
  bool acked = false;
  bool owes_gap = false;
  steady_time asked{};  // the oldest pending sub
};

struct hub::channel {
  std::string name;
  bool active = false;
  std::vector<subscription> held;
};

struct hub::worker {
  worker_id id;
  std::size_t dialect;
  bool greeted = false;
  bool touched = false;
  bool doomed = false;
  bool finished = false;     // its last frame is queued
  std::size_t repeated = 0;  // pending subs beyond the first of each channel
  std::string token;
  outbox out;
  std::unordered_map<channel*, std::uint32_t> held;  // and where in channel::held
  std::uint64_t delivered = 0;
  std::uint64_t coalesced = 0;
};

// One notification in every dialect it turns out to be needed in, each encoded once (D5).
class hub::routed final : public wake_frames {
 public:
  routed(const hub& h, const wake_view& wake) : hub_(h), wake_(wake) { by = wake.by; }

  wake_frames& in(std::size_t dialect) {
    dialect_ = dialect;
    return *this;
  }
  const frame_ptr& as_is() override { return made(with_[dialect_], wake_); }
  const frame_ptr& without_by() override {
    auto plain = wake_;
    plain.by = 0;
    return made(without_[dialect_], plain);
  }

 private:
  const frame_ptr& made(frame_ptr& slot, const wake_view& wake) {
    if (!slot) {
      std::string bytes;
      bytes.reserve(64 + wake.q.size() + (wake.payload ? wake.payload->size() : 0));
      hub_.dialects_[dialect_]->encode(bytes, wake);
      slot = std::make_shared<const std::string>(std::move(bytes));
    }
    return slot;
  }

  const hub& hub_;
  wake_view wake_;
  std::size_t dialect_ = 0;
  std::array<frame_ptr, 4> with_;
  std::array<frame_ptr, 4> without_;
};

hub::hub(limits l, std::vector<const dialect*> dialects) : limits_(l), dialects_(std::move(dialects)) {}
hub::~hub() = default;

void hub::change(const limits& l) { limits_ = l; }

hub::worker* hub::find(worker_id id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : it->second.get();
}

hub::worker* hub::open(worker_id id) const {
  auto* w = find(id);
  return w == nullptr || w->finished ? nullptr : w;
}

frame_ptr hub::encode(std::size_t dialect, const from_hub& message) const {
  std::string bytes;
  bytes.reserve(64);  // an ack's, about
  dialects_[dialect]->encode(bytes, message);
  return bytes.empty() ? nullptr : std::make_shared<const std::string>(std::move(bytes));
}

void hub::touch(worker& w) {
  if (w.touched) return;
  w.touched = true;
  touched_.push_back(w.id);
}

// After something was queued: the sums, and the verdict on the caps.
void hub::settle(worker& w, std::size_t bytes_before) {
  outbox_bytes_ += w.out.bytes() - bytes_before;
  touch(w);
  const bool over = w.out.ephemeral_bytes() > limits_.outbox_max_bytes ||
                    w.out.ephemeral_frames() > limits_.outbox_max_frames;
  if (over && !w.doomed) {
    w.doomed = true;
    doomed_.push_back(w.id);
  }
}

// Removes whom the caps condemned, then the fullest until the sum is within its bound (D8).
void hub::judge_total() {
  const auto condemn = [this](worker& w, const char* reason) {
    ++totals_.evicted;
    actions_.push_back(evict{w.id, reason, w.out.bytes(), w.out.frames()});
    remove(w);
  };
  for (const auto id : std::exchange(doomed_, {}))
    if (auto* w = find(id)) condemn(*w, "slow");
  while (outbox_bytes_ > limits_.outbox_total_max_bytes) {
    worker* fullest = nullptr;
    for (const auto& [id, w] : workers_)
      if (fullest == nullptr || w->out.bytes() > fullest->out.bytes()) fullest = w.get();
    if (fullest == nullptr) return;
    condemn(*fullest, "fullest");
  }
}

worker_id hub::join(std::size_t dialect, steady_time) {
  auto w = std::make_unique<worker>();
  w->id = ++last_id_;
  w->dialect = dialect;
  ++totals_.workers;
  workers_.emplace(last_id_, std::move(w));
  return last_id_;
}

void hub::set_dialect(worker_id id, std::size_t dialect) {
  if (auto* w = find(id)) w->dialect = dialect;
}

void hub::leave(worker_id id, steady_time) {
  if (auto* w = find(id)) remove(*w);
}

void hub::release(worker& w) {
  for (const auto& [c, index] : std::exchange(w.held, {})) drop(*c, index);
  if (!w.token.empty()) tokens_.erase(w.token);
  w.repeated = 0;
}

void hub::remove(worker& w) {
  release(w);
  outbox_bytes_ -= w.out.bytes();
  workers_.erase(w.id);
}

// Takes one subscription out of its channel; the last one in the vector takes its place.
void hub::drop(channel& c, std::size_t index) {
  if (index + 1 != c.held.size()) {
    c.held[index] = c.held.back();
    c.held[index].who->held[&c] = static_cast<std::uint32_t>(index);
  }
  c.held.pop_back();
  if (!c.held.empty()) return;
  actions_.push_back(unwant{c.name});
  impatient_.erase(c.name);
  run_.end();  // another channel may get its address
  channels_.erase(channels_.find(c.name));
}

void hub::greet(worker_id id, const std::optional<welcome>& w, steady_time now) {
  auto* who = open(id);
  if (who == nullptr) return;
  who->greeted = true;
  const auto before = who->out.bytes();
  if (w) {
    who->token = w->fence;
    tokens_[who->token] = id;
    who->out.control(encode(who->dialect, *w), now);
  }
  std::array<frame_ptr, 4> cache;
  queue_status(*who, cache, now);
  settle(*who, before);
  if (!next_heartbeat_) next_heartbeat_ = now + limits_.heartbeat;
}

void hub::queue_status(worker& w, std::array<frame_ptr, 4>& cache, steady_time now) {
  auto& frame = cache[w.dialect];
  if (!frame) frame = encode(w.dialect, status_);
  if (frame) w.out.status(frame, now);
}

void hub::health(const status& s, steady_time now) {
  status_ = s;
  std::array<frame_ptr, 4> cache;
  for (const auto& [id, w] : workers_) {
    if (!w->greeted) continue;
    const auto before = w->out.bytes();
    queue_status(*w, cache, now);
    settle(*w, before);
  }
  judge_total();
}

hub::channel* hub::open_channel(const std::string& name) {
  const auto it = channels_.find(name);
  if (it != channels_.end()) return it->second.get();
  if (channels_.size() >= limits_.max_channels) return nullptr;
  auto c = std::make_unique<channel>();
  c->name = name;
  auto* raw = c.get();
  channels_.emplace(name, std::move(c));
  actions_.push_back(want{name});
  return raw;
}

void hub::subscribe(worker_id id, const std::string& channel_name, steady_time now) {
  auto* w = open(id);
  if (w == nullptr) return;
  auto* c = open_channel(channel_name);
  if (c == nullptr)
    return refuse(
        id,
        nack{wire_name{dialects_[w->dialect]->name(channel_name), ""}, code::limit,
             "the hub holds " + std::to_string(limits_.max_channels) + " channels already (max_channels)",
             ""},
        now);
  const auto [at, fresh] = w->held.try_emplace(c, static_cast<std::uint32_t>(c->held.size()));
  if (fresh) {
    c->held.emplace_back();
    c->held.back().who = w;
  }
  auto& s = c->held[at->second];
  s.subscribed = true;
  if (++s.pending == 1)
    s.asked = now;
  else
    ++w->repeated;
  if (c->active)
    queue_acks(*w, *c, s, now);
  else if (w->dialect == 0)
    impatient_.try_emplace(c->name, now + limits_.v0_patience);
  judge_total();
}

void hub::queue_acks(worker& w, channel& c, subscription& s, steady_time now) {
  if (s.pending == 0) return;
  const auto before = w.out.bytes();
  const auto frame = encode(w.dialect, pgwake::ack{dialects_[w.dialect]->name(c.name)});
  w.repeated -= s.pending - 1;
  for (; s.pending > 0; --s.pending) {
    w.out.ack(s.marks, frame, now);
    ++totals_.acks;
    ack_latency_.add(now - s.asked);
  }
  s.acked = s.subscribed;
  settle(w, before);
}

void hub::unsubscribe(worker_id id, const std::string& channel_name, steady_time) {
  auto* w = find(id);
  const auto c = channels_.find(channel_name);
  if (w == nullptr || c == channels_.end()) return;
  const auto at = w->held.find(c->second.get());
  if (at == w->held.end()) return;
  auto& s = c->second->held[at->second];
  s.subscribed = false;
  s.acked = false;
  s.owes_gap = false;
  if (s.pending > 0) return;  // its acks are still owed
  const auto index = at->second;
  w->held.erase(at);
  drop(*c->second, index);
}

void hub::refuse(worker_id id, const nack& n, steady_time now) {
  ++totals_.nacks;
  answer(id, n, now);
}

void hub::answer(worker_id id, const from_hub& message, steady_time now) {
  auto* w = open(id);
  if (w == nullptr) return;
  const auto frame = encode(w->dialect, message);
  if (!frame) return;
  const auto before = w->out.bytes();
  w->out.control(frame, now);
  settle(*w, before);
  judge_total();
}

void hub::finish(worker_id id, const bye& last, steady_time now) {
  auto* w = open(id);
  if (w == nullptr) return;
  release(*w);
  answer(id, last, now);
  w = find(id);
  if (w == nullptr) return;  // the last frame was one too many for the sum of outboxes
  w->finished = true;
  w->greeted = false;
}

void hub::activated(const std::string& name, steady_time now) {
  const auto it = channels_.find(name);
  if (it == channels_.end()) return;
  auto& c = *it->second;
  c.active = true;
  impatient_.erase(name);
  wake_view view;
  view.q = c.name;
  view.gap = gap_cause::reconnect;
  routed gap(*this, view);
  for (std::size_t i = 0; i < c.held.size();) {
    auto& s = c.held[i];
    auto& w = *s.who;
    queue_acks(w, c, s, now);
    if (s.owes_gap) {
      queue_gap(w, s, gap, now);
      s.owes_gap = false;
    }
    if (s.subscribed) {
      ++i;
      continue;
    }
    w.held.erase(&c);  // unsubscribed meanwhile: now that its acks are out, it goes
    const bool last = c.held.size() == 1;
    drop(c, i);
    if (last) break;  // the channel is gone
  }
  judge_total();
}

void hub::queue_gap(worker& w, subscription& s, routed& gap, steady_time now) {
  const auto before = w.out.bytes();
  w.out.gap(s.marks, gap.in(w.dialect).as_is(), now);
  ++totals_.gaps;
  settle(w, before);
}

void hub::refused(const std::string& name, code why, const std::string& sqlstate, const std::string& reason,
                  steady_time now) {
  const auto it = channels_.find(name);
  if (it == channels_.end()) return;
  auto& c = *it->second;
  while (true) {
    auto& s = c.held.back();
    auto& w = *s.who;
    const auto before = w.out.bytes();
    const auto frame =
        encode(w.dialect, nack{wire_name{dialects_[w.dialect]->name(name), ""}, why, reason, sqlstate});
    // A subscription that was acked in an earlier session ends here: it must not stay silently deaf.
    for (auto n = std::max<std::uint32_t>(s.pending, s.subscribed ? 1 : 0); n > 0; --n) {
      w.out.control(frame, now);
      ++totals_.nacks;
    }
    settle(w, before);
    if (s.pending > 1) w.repeated -= s.pending - 1;
    w.held.erase(&c);
    const bool last = c.held.size() == 1;
    drop(c, c.held.size() - 1);
    if (last) break;
  }
  judge_total();
}

void hub::upstream_lost(steady_time) {
  for (auto& [name, c] : channels_) {
    c->active = false;
    for (auto& s : c->held)
      if (s.acked) s.owes_gap = true;
  }
}

void hub::notification(std::string_view name, std::string_view payload, int by, steady_time now) {
  ++totals_.notifications;
  const auto it = channels_.find(name);
  if (it == channels_.end()) {
    ++totals_.unrouted;
    return;
  }
  wake_view view;
  view.q = name;
  view.by = by;
  if (!payload.empty()) view.payload = payload;
  routed wake(*this, view);
  if (view.payload) run_.next(it->second.get(), view);
  for (auto& s : it->second->held) {
    if (!s.subscribed) continue;
    auto& w = *s.who;
    if (s.owes_gap) {
      // This wake overtook the answer of its LISTEN: the gap goes before it, and stays owed until LISTEN is
      // known to be active, since till then the batch may be taken back (a name that the server cut).
      wake_view announced;
      announced.q = name;
      announced.gap = gap_cause::reconnect;
      routed gap(*this, announced);
      queue_gap(w, s, gap, now);
    }
    const auto before = w.out.bytes();
    if (view.payload) {
      const auto [bytes, begin] = run_.in(w.dialect, *dialects_[w.dialect]);
      w.out.ephemeral(s.marks, bytes, now, begin);
    } else if (w.out.durable(s.marks, wake.in(w.dialect), now) == outbox::verdict::coalesced) {
      ++w.coalesced;
      ++totals_.coalesced;
      outbox_bytes_ += w.out.bytes() - before;
      continue;
    }
    ++w.delivered;
    ++totals_.delivered;
    settle(w, before);
  }
  if (!doomed_.empty() || outbox_bytes_ > limits_.outbox_total_max_bytes) judge_total();
}

bool hub::fence(std::string_view payload, steady_time now) {
  const auto colon = payload.rfind(':');
  if (colon == std::string_view::npos) return false;
  const auto digits = payload.substr(colon + 1);
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size()) return false;
  const auto token = tokens_.find(payload.substr(0, colon));
  if (token == tokens_.end()) return false;
  auto& w = *workers_.at(token->second);
  const auto frame = encode(w.dialect, pgwake::fence{n});
  const auto before = w.out.bytes();
  if (frame) w.out.fence(frame, now);
  ++totals_.fences;
  settle(w, before);
  judge_total();
  return true;
}

void hub::tick(steady_time now) {
  if (next_heartbeat_ && now >= *next_heartbeat_) {
    next_heartbeat_ = workers_.empty() ? std::nullopt : std::optional(now + limits_.heartbeat);
    health(status(status_), now);
  }
  if (status_.healthy) return;
  std::vector<std::string> due;
  for (const auto& [name, at] : impatient_)
    if (at <= now) due.push_back(name);
  for (const auto& name : due) impatient(name, now);
  judge_total();
}

// S3: a v0 worker left without an answer turns deaf for good, so it gets its ack now and owes a gap.
void hub::impatient(const std::string& name, steady_time now) {
  auto& c = *channels_.find(name)->second;
  impatient_.erase(name);
  for (std::size_t i = 0; i < c.held.size();) {
    auto& s = c.held[i];
    auto& w = *s.who;
    const auto due = s.asked + limits_.v0_patience;
    if (w.dialect != 0 || s.pending == 0) {
      ++i;
    } else if (due > now) {
      auto& at = impatient_.try_emplace(name, due).first->second;
      at = std::min(at, due);
      ++i;
    } else if (queue_acks(w, c, s, now); s.subscribed) {
      s.owes_gap = true;
      ++i;
    } else {
      w.held.erase(&c);
      const bool last = c.held.size() == 1;
      drop(c, i);
      if (last) return;  // the channel is gone
    }
  }
}

std::optional<steady_time> hub::deadline() const {
  auto at = next_heartbeat_;
  if (status_.healthy) return at;
  for (const auto& [name, due] : impatient_) at = at ? std::min(*at, due) : due;
  return at;
}

outbox* hub::open_outbox(worker_id id) {
  auto* w = find(id);
  if (w == nullptr) return nullptr;
  w->touched = false;
  run_.end();
  return &w->out;
}

void hub::written(worker_id id, std::size_t bytes, std::optional<steady_time> now) {
  auto* w = find(id);
  if (w == nullptr) return;
  const auto before = w->out.bytes();
  if (now)
    w->out.written(bytes, *now, &wake_latency_);
  else
    w->out.written(bytes);
  outbox_bytes_ -= before - w->out.bytes();
}

bool hub::may_read(worker_id id) const {
  const auto* w = open(id);
  return w != nullptr && w->out.control_bytes() + w->repeated * owed_ack_bytes <= limits_.control_max_bytes;
}

bool hub::holds_subscriptions(worker_id id) const {
  const auto* w = find(id);
  return w != nullptr && !w->held.empty();
}

std::vector<hub::worker_view> hub::workers() const {
  std::vector<worker_view> out;
  out.reserve(workers_.size());
  for (const auto& [id, w] : workers_) {
    worker_view v{};
    v.id = id;
    v.dialect = w->dialect;
    v.bytes = w->out.bytes();
    v.frames = w->out.frames();
    v.delivered = w->delivered;
    v.coalesced = w->coalesced;
    if (!w->out.empty()) v.oldest = w->out.oldest();
    for (const auto& [c, index] : w->held) v.channels.emplace_back(c->name);
    std::sort(v.channels.begin(), v.channels.end());
    v.holds_subscriptions = !w->held.empty();
    out.push_back(std::move(v));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return out;
}

hub::crowd hub::overview() const {
  crowd all;
  for (const auto& [id, w] : workers_) {
    ++all.by_dialect[w->dialect];
    all.subscriptions += w->held.size();
    if (w->out.empty()) continue;
    ++all.behind;
    all.outbox_frames += w->out.frames();
    all.fullest_bytes = std::max(all.fullest_bytes, w->out.ephemeral_bytes());
    all.fullest_frames = std::max(all.fullest_frames, w->out.ephemeral_frames());
    all.oldest = all.oldest ? std::min(*all.oldest, w->out.oldest()) : w->out.oldest();
  }
  return all;
}

std::vector<hub::channel_view> hub::channels() const {
  std::vector<channel_view> out;
  out.reserve(channels_.size());
  for (const auto& [name, c] : channels_) out.push_back({name, c->held.size(), c->active});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace pgwaked
