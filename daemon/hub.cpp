#include "daemon/hub.hpp"

#include <utility>

#include "daemon/hub_parts.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {
// What one owed ack will take, about; counted beforehand for subs that repeat themselves unanswered.
constexpr std::size_t owed_ack_bytes = 64;
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

}  // namespace pgwaked
