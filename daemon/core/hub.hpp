#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/message.hpp"
#include "common/time.hpp"
#include "daemon/core/dialect.hpp"
#include "daemon/core/duration_histogram.hpp"
#include "daemon/core/outbox.hpp"
#include "daemon/core/wake_run.hpp"

namespace pgwaked {

using worker_id = std::uint64_t;  // never used twice in one run; an id that left is simply not found

// Whose worker it is. `privileged`: root's, or that of the user that the hub runs as.
struct owner {
  std::uint32_t uid = 0;
  bool privileged = true;
};

// How much of something one user may have.
struct quota {
  std::size_t ordinary = SIZE_MAX;
  std::size_t privileged = SIZE_MAX;
  std::size_t of(const owner& who) const { return who.privileged ? privileged : ordinary; }
};

// Workers, their subscriptions, routing, gaps and verdicts. Pure: it knows worker ids, channels and payloads,
// nothing of JSON, sockets or libpq.
//
// A subscription (worker, channel):
//
//   pending n   n subs are unanswered; routed to already if `subscribed`
//   acked       the worker was told that LISTEN is active (S1); on an outage it owes a gap (G1)
//   unsubscribed, pending n   unsub came before the acks; the acks still come (S8), no wakes
//
// Invariants: an ack is queued only while the channel is active in the live session (but for a dialect whose
// patience is over, which is owed a gap: S3). A channel is wanted upstream exactly while it has a
// subscription here. What a worker gets goes through its one outbox, in order.
class hub {
 public:
  struct limits {
    std::size_t outbox_max_bytes = 16U << 20U;
    std::size_t outbox_max_frames = 1'000'000;
    // Over either, a worker that takes bytes is given time: it must take some in each `slow_look`, be below
    // within `slow_at_most`, and never be over so many times its bound (D3).
    pgwake::millis slow_look{1'000};
    pgwake::millis slow_at_most{10'000};
    std::size_t hard_factor = 4;
    std::size_t outbox_total_max_bytes = 512U << 20U;
    std::size_t control_max_bytes = 256U << 10U;
    std::size_t max_channels = 50'000;
    std::size_t max_unsent_fences = 8;  // of one worker; whoever hands over waits for one
    quota channels_of_user{};           // distinct ones, of all its workers together
    std::size_t max_subscriptions_of_user = 1'000'000;
    std::size_t max_subscriptions = 4'000'000;  // of all users together
    pgwake::millis heartbeat{5'000};
  };

  // Actions for the owner, in order.
  // Answer activated() at once if it is active already.
  struct want {
    std::string channel;
    worker_id worker;  // who asks
  };
  // Nobody holds it any more.
  struct unwant {
    std::string channel;
  };
  // Close this worker's socket at once; it is forgotten here.
  struct evict {
    worker_id worker;
    std::string reason;
    std::size_t bytes;
    std::size_t frames;
  };
  // It was refused something and its dialect takes no `no`: to be closed once what is queued was offered.
  struct turn_away {
    worker_id worker;
    pgwake::code why;
    std::string reason;
  };
  // For a dialect that answers by itself.
  struct acked {
    worker_id worker;
    std::string channel;
  };
  struct denied {
    worker_id worker;
    std::string channel;
    pgwake::code why;
    std::string sqlstate;
    std::string reason;
  };
  using action = std::variant<want, unwant, evict, turn_away, acked, denied>;

  struct totals {
    std::uint64_t notifications = 0;
    std::uint64_t unrouted = 0;   // notifications that no worker here subscribes to
    std::uint64_t delivered = 0;  // wakes queued for workers
    std::uint64_t coalesced = 0;
    std::uint64_t gaps = 0;
    std::uint64_t acks = 0;
    std::uint64_t nacks = 0;
    std::uint64_t fences = 0;
    std::uint64_t evicted = 0;
    std::uint64_t workers = 0;  // ever
  };

  // `dialects` outlive the hub; a worker names its own by index.
  hub(limits l, std::vector<const dialect*> dialects);
  ~hub();
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;

  // Workers. A worker gets status frames once it is greeted.
  worker_id join(std::size_t dialect, pgwake::steady_time now, owner who = {});
  void set_dialect(worker_id id, std::size_t dialect);  // before anything was queued for it
  void leave(worker_id id, pgwake::steady_time now);
  // Starts heartbeats; with a welcome it is queued first, and its fence token addresses fences to this
  // worker. An operator's connection does not count as a worker.
  void greet(worker_id id, const std::optional<pgwake::welcome>& welcome, pgwake::steady_time now,
             bool counts = true);
  void subscribe(worker_id id, const std::string& channel, pgwake::steady_time now);
  void unsubscribe(worker_id id, const std::string& channel, pgwake::steady_time now);
  void refuse(worker_id id, const pgwake::nack& nack, pgwake::steady_time now);
  // Any other answer (pong, control): keeps its place in the queue.
  void answer(worker_id id, const pgwake::from_hub& message, pgwake::steady_time now);
  // The same for several, encoded once.
  void answer_all(const std::vector<worker_id>& ids, const pgwake::from_hub& message,
                  pgwake::steady_time now);
  // The same for bytes of a dialect that answers by itself; wakes can be held back behind them.
  void say(worker_id id, std::string bytes, pgwake::steady_time now);
  void hold(worker_id id, bool on);
  // What its dialect keeps for it in memory: counts for D8 as its outbox does.
  void keeps(worker_id id, std::size_t bytes);
  // Its last frame: what it held is released, and nothing is queued for it any more. It stays until leave(),
  // so that its outbox can be written.
  void finish(worker_id id, const pgwake::bye& last, pgwake::steady_time now);

  // The upstream.
  void activated(const std::string& channel, pgwake::steady_time now);
  void refused(const std::string& channel, pgwake::code why, const std::string& sqlstate,
               const std::string& reason, pgwake::steady_time now);
  void upstream_lost(pgwake::steady_time now);
  void health(const pgwake::status& s, pgwake::steady_time now);  // told to all; also while draining
  void notification(std::string_view channel, std::string_view payload, int by, pgwake::steady_time now);
  // A payload `TOKEN:N` of the fence channel; false if it addresses no worker here. It is passed on only to
  // a worker whose stream is whole: none of its channels waits for its LISTEN, and so no gap is owed.
  bool fence(std::string_view payload, int by, pgwake::steady_time now);

  void tick(pgwake::steady_time now);
  std::optional<pgwake::steady_time> deadline() const;

  void change(const limits& l);  // on reload

  // What came of it: taken by the owner after each call or turn.
  std::vector<action>& actions() { return actions_; }
  // Workers with something to write that was not there before, each once.
  std::vector<worker_id>& touched() { return touched_; }
  // Marks as not touched; called by the owner when it flushes that worker.
  outbox* open_outbox(worker_id id);
  // With `now` the wakes that went out by it are counted in wake_latency().
  void written(worker_id id, std::size_t bytes, std::optional<pgwake::steady_time> now = {});
  // False: past its bound of unsent answers, read no more from it until it drains (D7).
  bool may_read(worker_id id) const;

  // For status and metrics.
  struct worker_view {
    worker_id id;
    std::size_t dialect;
    std::size_t bytes, frames;
    std::uint64_t delivered, coalesced;
    pgwake::steady_time oldest;  // only with frames > 0
    std::vector<std::string_view> channels;
    std::size_t channel_count;
    bool holds_subscriptions;
  };
  std::vector<worker_view> workers() const;  // with their channels in order
  // One of them, with at most so many of its channels in no order.
  std::optional<worker_view> view(worker_id id, std::size_t most_channels) const;
  struct channel_view {
    std::string_view name;
    std::size_t workers;
    bool active;
  };
  std::vector<channel_view> channels() const;  // in order
  // All of them in slices and no order: about `most` from `place` on, which is 0 at first; nothing at the
  // end. Places hold as long as channel_places() stays what it is.
  std::optional<std::size_t> channels(std::size_t place, std::size_t most,
                                      std::vector<channel_view>& out) const;
  std::size_t channel_places() const { return channels_.bucket_count(); }
  // What the workers are as a crowd, without a look at their channels.
  struct crowd {
    std::array<std::size_t, 4> by_dialect{};
    std::size_t subscriptions = 0;
    std::size_t outbox_frames = 0;
    std::size_t behind = 0;  // workers with something unsent
    std::size_t fullest_bytes =
        0;  // of memory for payloads, in the fullest outbox: as outbox_max_bytes counts
    std::size_t fullest_frames = 0;             // and outbox_max_frames
    std::optional<pgwake::steady_time> oldest;  // when the oldest unsent frame was queued
  };
  crowd overview() const;
  // From a sub to its ack, counted when the ack is queued.
  const duration_histogram& ack_latency() const { return ack_latency_; }
  // From a wake's notification to the write that took its last byte.
  const duration_histogram& wake_latency() const { return wake_latency_; }
  const totals& counted() const { return totals_; }
  std::size_t worker_count() const { return workers_.size(); }
  std::size_t channel_count() const { return channels_.size(); }
  // Of memory, for all workers: in their outboxes, and what dialects keep for them. As D8 counts.
  std::size_t held_bytes() const { return held_bytes_; }
  bool holds_subscriptions(worker_id id) const;
  bool takes_no(worker_id id) const;  // by its dialect

 private:
  struct worker;
  struct user;
  struct channel;
  struct subscription;
  class routed;  // wake_frames for the dialect of one worker after the other
  struct name_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  using channel_table = std::unordered_map<std::string, std::unique_ptr<channel>, name_hash, std::equal_to<>>;

  worker* find(worker_id id) const;
  worker* open(worker_id id) const;  // and not finished
  frame_ptr encode(std::size_t dialect, const pgwake::from_hub& message) const;
  std::string no_room(const worker& w, const channel* c) const;
  channel* open_channel(const std::string& name, const worker& first);
  void touch(worker& w);
  void settle(worker& w, std::size_t memory_before, pgwake::steady_time now);  // accounts, judges caps
  void judge_slow(worker& w, pgwake::steady_time now);
  void look_at_slow(pgwake::steady_time now);
  void no_longer_slow(worker& w);
  void doom(worker& w);
  worker* fullest_of_fullest() const;
  void queue_status(worker& w, std::array<frame_ptr, 4>& cache, pgwake::steady_time now);
  void queue_acks(worker& w, channel& c, subscription& s, pgwake::steady_time now);
  void drop(channel& c, std::size_t index);
  void release(worker& w);
  void remove(worker& w);
  void queue_gap(worker& w, subscription& s, routed& gap, pgwake::steady_time now);
  void wait_until(channel& c, std::optional<pgwake::steady_time> due);
  void impatient(channel& c, pgwake::steady_time now);
  void say_no(const worker& w, pgwake::code why, const std::string& reason);
  void judge_total();
  bool whole(const worker& w) const;

  limits limits_;
  std::vector<const dialect*> dialects_;
  std::unordered_map<worker_id, std::unique_ptr<worker>> workers_;
  std::unordered_map<std::uint32_t, std::unique_ptr<user>> users_;
  std::set<std::pair<pgwake::steady_time, worker_id>> slow_;  // over a cap: when to look again
  channel_table channels_;
  std::unordered_map<std::string, worker_id, name_hash, std::equal_to<>> tokens_;
  std::vector<action> actions_;
  std::vector<worker_id> touched_;
  wake_run run_;
  std::vector<worker_id> doomed_;  // over a cap; removed once the loop that found them is over
  pgwake::status status_;
  std::optional<pgwake::steady_time> next_heartbeat_;
  std::set<std::pair<pgwake::steady_time, std::string_view>> impatient_;  // channels whose subs will not wait
  worker_id last_id_ = 0;
  std::size_t inactive_ = 0;  // channels that wait for their LISTEN
  std::size_t held_bytes_ = 0;
  std::size_t subscriptions_ = 0;
  totals totals_;
  duration_histogram ack_latency_;
  duration_histogram wake_latency_;
};

}  // namespace pgwaked
