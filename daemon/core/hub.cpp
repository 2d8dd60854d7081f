#include "daemon/core/hub.hpp"

#include <utility>

#include "daemon/core/hub_parts.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {
// What one owed ack will take, about; counted beforehand for subs that repeat themselves unanswered.
constexpr std::size_t owed_ack_bytes = 64 + outbox::overhead;
// Tables of so many places are made smaller when few are left: else whoever subscribes to much, and ends it
// again, would leave memory behind that no limit counts.
constexpr std::size_t worth_giving_back = 64;
}  // namespace

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
void hub::settle(worker& w, std::size_t memory_before, steady_time now) {
  held_bytes_ += w.out.memory() - memory_before;
  touch(w);
  const bool over = w.out.ephemeral_memory() > limits_.outbox_max_bytes ||
                    w.out.ephemeral_frames() > limits_.outbox_max_frames;
  if (over && !w.doomed) judge_slow(w, now);
}

// A burst is no reason: who takes bytes is not slow until a deadline, or a bound that no burst may pass (D3).
void hub::judge_slow(worker& w, steady_time now) {
  if (w.out.ephemeral_memory() / limits_.hard_factor > limits_.outbox_max_bytes ||
      w.out.ephemeral_frames() / limits_.hard_factor > limits_.outbox_max_frames)
    return doom(w);
  if (w.slow) return;
  w.slow = worker::slowness{now, now + std::min(limits_.slow_look, limits_.slow_at_most)};
  slow_.emplace(w.slow->look, w.id);
}

void hub::doom(worker& w) {
  if (std::exchange(w.doomed, true)) return;
  doomed_.push_back(w.id);
}

void hub::no_longer_slow(worker& w) {
  if (w.slow) slow_.erase({w.slow->look, w.id});
  w.slow.reset();
}

void hub::look_at_slow(steady_time now) {
  while (!slow_.empty() && slow_.begin()->first <= now) {
    auto& w = *workers_.at(slow_.begin()->second);
    auto slow = *w.slow;
    no_longer_slow(w);
    const auto end = slow.since + limits_.slow_at_most;
    if (!std::exchange(slow.took, false) || now >= end) {
      doom(w);
      continue;
    }
    slow.look = std::min(now + limits_.slow_look, end);
    w.slow = slow;
    slow_.emplace(slow.look, w.id);
  }
}

// Whom D8 takes first: of the user whose workers' outboxes take the most together, with what is kept for
// them, the one that takes the most.
hub::worker* hub::fullest_of_fullest() const {
  std::unordered_map<const user*, std::size_t> sums;
  for (const auto& [id, w] : workers_) sums[w->of] += w->memory();
  worker* fullest = nullptr;
  for (const auto& [id, w] : workers_) {
    if (fullest == nullptr ||
        std::pair(sums[w->of], w->memory()) > std::pair(sums[fullest->of], fullest->memory()))
      fullest = w.get();
  }
  return fullest;
}

// Removes whom the caps condemned, then the fullest user's fullest until the sum is within its bound (D8).
void hub::judge_total() {
  const auto condemn = [this](worker& w, const char* reason) {
    ++totals_.evicted;
    actions_.push_back(evict{w.id, reason, w.memory(), w.out.frames()});
    remove(w);
  };
  for (const auto id : std::exchange(doomed_, {}))
    if (auto* w = find(id)) condemn(*w, "slow");
  while (held_bytes_ > limits_.outbox_total_max_bytes) {
    auto* fullest = fullest_of_fullest();
    if (fullest == nullptr) return;
    condemn(*fullest, "fullest");
  }
}

worker_id hub::join(std::size_t dialect, steady_time, owner who) {
  auto& of = users_[who.uid];
  if (!of) of = std::make_unique<user>(user{who, 0, 0, {}});
  ++of->workers;
  auto w = std::make_unique<worker>();
  w->id = ++last_id_;
  w->dialect = dialect;
  w->of = of.get();
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
  no_longer_slow(w);
  held_bytes_ -= w.memory();
  if (--w.of->workers == 0) users_.erase(w.of->who.uid);
  workers_.erase(w.id);
}

// Takes one subscription out of its channel; the last one in the vector takes its place.
void hub::drop(channel& c, std::size_t index) {
  auto& its = c.held[index].who->held;
  auto& of = *c.held[index].who->of;
  its.erase(&c);
  if (its.bucket_count() > worth_giving_back && its.size() < its.bucket_count() / 8) its.rehash(0);
  --subscriptions_;
  --of.subscriptions;
  if (const auto at = of.channels.find(&c); --at->second == 0) of.channels.erase(at);
  if (index + 1 != c.held.size()) {
    c.held[index] = c.held.back();
    c.held[index].who->held[&c] = static_cast<std::uint32_t>(index);
  }
  c.held.pop_back();
  if (c.held.capacity() > worth_giving_back && c.held.size() < c.held.capacity() / 8) c.held.shrink_to_fit();
  if (!c.held.empty()) return;
  actions_.push_back(unwant{c.name});
  wait_until(c, std::nullopt);
  if (!c.active) --inactive_;
  run_.end();  // another channel may get its address
  channels_.erase(channels_.find(c.name));
}

void hub::greet(worker_id id, const std::optional<welcome>& w, steady_time now, bool counts) {
  auto* who = open(id);
  if (who == nullptr) return;
  if (!std::exchange(who->greeted, true) && counts) ++totals_.workers;
  who->counts = counts;
  const auto before = who->out.memory();
  if (w) {
    who->token = w->fence;
    tokens_[who->token] = id;
    who->out.control(encode(who->dialect, *w), now);
  }
  std::array<frame_ptr, 4> cache;
  queue_status(*who, cache, now);
  settle(*who, before, now);
  if (!next_heartbeat_) next_heartbeat_ = now + limits_.heartbeat;
}

void hub::queue_status(worker& w, std::array<frame_ptr, 4>& cache, steady_time now) {
  auto& frame = cache[w.dialect];
  if (!frame) frame = encode(w.dialect, status_);
  if (frame) w.out.status(frame, status_.healthy, now);
}

void hub::health(const status& s, steady_time now) {
  status_ = s;
  std::array<frame_ptr, 4> cache;
  for (const auto& [id, w] : workers_) {
    if (!w->greeted) continue;
    const auto before = w->out.memory();
    queue_status(*w, cache, now);
    settle(*w, before, now);
  }
  judge_total();
}

// Why this worker, which does not hold it, may not have it: empty if it may (K4). Null: nobody holds it.
std::string hub::no_room(const worker& w, const channel* c) const {
  const auto& of = *w.of;
  if (of.subscriptions >= limits_.max_subscriptions_of_user)
    return "the workers of uid " + std::to_string(of.who.uid) + " hold " + std::to_string(of.subscriptions) +
           " subscriptions already";
  if (subscriptions_ >= limits_.max_subscriptions)
    return "the hub holds " + std::to_string(subscriptions_) + " subscriptions already";
  const auto most = limits_.channels_of_user.of(of.who);
  if (of.channels.size() >= most && (c == nullptr || !of.channels.contains(c)))
    return "the workers of uid " + std::to_string(of.who.uid) + " hold " + std::to_string(most) +
           " channels already (max_channels_per_user)";
  if (c == nullptr && channels_.size() >= limits_.max_channels)
    return "the hub holds " + std::to_string(limits_.max_channels) + " channels already (max_channels)";
  return {};
}

hub::channel* hub::open_channel(const std::string& name, const worker& first) {
  auto c = std::make_unique<channel>();
  c->name = name;
  auto* out = c.get();
  channels_.emplace(name, std::move(c));
  actions_.push_back(want{name, first.id});
  ++inactive_;
  return out;
}

void hub::subscribe(worker_id id, const std::string& channel_name, steady_time now) {
  auto* w = open(id);
  if (w == nullptr) return;
  const auto found = channels_.find(channel_name);
  auto* c = found == channels_.end() ? nullptr : found->second.get();
  if (c == nullptr || !w->held.contains(c)) {
    auto why = no_room(*w, c);
    if (!why.empty()) {
      wire_name q{dialects_[w->dialect]->name(channel_name), ""};
      return refuse(id, nack{std::move(q), code::limit, std::move(why), ""}, now);
    }
    if (c == nullptr) c = open_channel(channel_name, *w);
  }
  const auto [at, fresh] = w->held.try_emplace(c, static_cast<std::uint32_t>(c->held.size()));
  if (fresh) {
    c->held.emplace_back();
    c->held.back().who = w;
    ++subscriptions_;
    ++w->of->subscriptions;
    ++w->of->channels[c];
  }
  auto& s = c->held[at->second];
  s.subscribed = true;
  if (++s.pending == 1)
    s.asked = now;
  else
    ++w->repeated;
  const auto patience = dialects_[w->dialect]->patience();
  if (c->active) {
    queue_acks(*w, *c, s, now);
  } else if (patience && s.acked) {  // it was told before, and is owed a gap anyway
    queue_acks(*w, *c, s, now);
    s.owes_gap = true;
  } else if (patience && (!c->due || now + *patience < *c->due)) {
    wait_until(*c, now + *patience);
  }
  judge_total();
}

void hub::wait_until(channel& c, std::optional<steady_time> due) {
  if (c.due) impatient_.erase({*c.due, c.name});
  c.due = due;
  if (due) impatient_.emplace(*due, c.name);
}

void hub::queue_acks(worker& w, channel& c, subscription& s, steady_time now) {
  if (s.pending == 0) return;
  const auto before = w.out.memory();
  const auto frame = encode(w.dialect, pgwake::ack{dialects_[w.dialect]->name(c.name)});
  w.repeated -= s.pending - 1;
  for (; s.pending > 0; --s.pending) {
    if (frame)
      w.out.ack(s.marks, frame, now);
    else
      actions_.push_back(acked{w.id, c.name});
    ++totals_.acks;
    ack_latency_.add(now - s.asked);
  }
  s.acked = s.subscribed;
  settle(w, before, now);
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
  drop(*c->second, at->second);
}

void hub::refuse(worker_id id, const nack& n, steady_time now) {
  ++totals_.nacks;
  if (const auto* w = open(id); w != nullptr && dialects_[w->dialect]->answers_itself())
    actions_.push_back(denied{id, n.q.text, n.why, n.sqlstate, n.reason});
  answer(id, n, now);
  if (const auto* w = open(id)) say_no(*w, n.why, n.reason);
}

void hub::say_no(const worker& w, code why, const std::string& reason) {
  if (!dialects_[w.dialect]->takes_no()) actions_.push_back(turn_away{w.id, why, reason});
}

void hub::answer(worker_id id, const from_hub& message, steady_time now) {
  auto* w = open(id);
  if (w == nullptr) return;
  const auto frame = encode(w->dialect, message);
  if (!frame) return;
  const auto before = w->out.memory();
  w->out.control(frame, now);
  settle(*w, before, now);
  judge_total();
}

void hub::answer_all(const std::vector<worker_id>& ids, const from_hub& message, steady_time now) {
  std::array<frame_ptr, 4> frames;
  for (const auto id : ids) {
    auto* w = open(id);
    if (w == nullptr) continue;
    auto& frame = frames[w->dialect];
    if (!frame) frame = encode(w->dialect, message);
    if (!frame) continue;
    const auto before = w->out.memory();
    w->out.control(frame, now);
    settle(*w, before, now);
  }
  judge_total();
}

void hub::say(worker_id id, std::string bytes, steady_time now) {
  auto* w = open(id);
  if (w == nullptr || bytes.empty()) return;
  const auto before = w->out.memory();
  w->out.answer(std::make_shared<const std::string>(std::move(bytes)), now);
  settle(*w, before, now);
  judge_total();
}

void hub::hold(worker_id id, bool on) {
  auto* w = find(id);
  if (w == nullptr) return;
  if (on) return w->out.hold();
  w->out.release();
  touch(*w);
}

void hub::keeps(worker_id id, std::size_t bytes) {
  auto* w = find(id);
  if (w == nullptr) return;
  held_bytes_ += bytes - std::exchange(w->kept, bytes);
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
  if (w->slow && bytes > 0) w->slow->took = true;
  const auto before = w->out.memory();
  if (now)
    w->out.written(bytes, *now, &wake_latency_);
  else
    w->out.written(bytes);
  held_bytes_ -= before - w->out.memory();
  if (w->slow && w->out.ephemeral_memory() <= limits_.outbox_max_bytes &&
      w->out.ephemeral_frames() <= limits_.outbox_max_frames)
    no_longer_slow(*w);
}

bool hub::may_read(worker_id id) const {
  const auto* w = open(id);
  return w != nullptr && w->out.control_memory() + w->repeated * owed_ack_bytes <= limits_.control_max_bytes;
}

bool hub::holds_subscriptions(worker_id id) const {
  const auto* w = find(id);
  return w != nullptr && !w->held.empty();
}

bool hub::takes_no(worker_id id) const {
  const auto* w = find(id);
  return w == nullptr || dialects_[w->dialect]->takes_no();
}

}  // namespace pgwaked
