#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/message.hpp"
#include "common/time.hpp"
#include "daemon/dialect.hpp"
#include "daemon/metrics_histogram.hpp"
#include "daemon/outbox.hpp"
#include "daemon/wake_run.hpp"

namespace pgwaked {

using worker_id = std::uint64_t;  // never used twice in one run; an id that left is simply not found

// Workers, their subscriptions, routing, gaps and verdicts. Pure: it knows worker ids, channels and payloads,
// nothing of JSON, sockets or libpq.
//
// A subscription (worker, channel):
//
//   pending n   n subs are unanswered; routed to already if `subscribed`
//   acked       the worker was told that LISTEN is active (S1); on an outage it owes a gap (G1)
//   unsubscribed, pending n   unsub came before the acks; the acks still come (S8), no wakes
//
// Invariants: an ack is queued only while the channel is active in the live session (but for the v0 exception
// of S3, which owes a gap). A channel is wanted upstream exactly while it has a subscription here. What a
// worker gets goes through its one outbox, in order.
class hub {
 public:
  struct limits {
    std::size_t outbox_max_bytes = 16U << 20U;
    std::size_t outbox_max_frames = 65'536;
    std::size_t outbox_total_max_bytes = 512U << 20U;
    std::size_t control_max_bytes = 256U << 10U;
    std::size_t max_channels = 50'000;
    pgwake::millis heartbeat{5'000};
    pgwake::millis v0_patience{1'500};
  };

  // Actions for the owner, in order.
  struct want {
    std::string channel;
  };  // answer activated() at once if it is active already
  struct unwant {
    std::string channel;
  };  // nobody holds it any more
  // Close this worker's socket at once; it is forgotten here.
  struct evict {
    worker_id worker;
    std::string reason;
    std::size_t bytes;
    std::size_t frames;
  };
  using action = std::variant<want, unwant, evict>;

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
  worker_id join(std::size_t dialect, pgwake::steady_time now);
  void set_dialect(worker_id id, std::size_t dialect);  // before anything was queued for it
  void leave(worker_id id, pgwake::steady_time now);
  // Starts heartbeats; with a welcome it is queued first, and its fence token addresses fences to this
  // worker.
  void greet(worker_id id, const std::optional<pgwake::welcome>& welcome, pgwake::steady_time now);
  void subscribe(worker_id id, const std::string& channel, pgwake::steady_time now);
  void unsubscribe(worker_id id, const std::string& channel, pgwake::steady_time now);
  void refuse(worker_id id, const pgwake::nack& nack, pgwake::steady_time now);
  // Any other answer (pong, stats): keeps its place in the queue.
  void answer(worker_id id, const pgwake::from_hub& message, pgwake::steady_time now);
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
  // A payload `TOKEN:N` of the fence channel; false if it addresses no worker here.
  bool fence(std::string_view payload, pgwake::steady_time now);

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
    bool holds_subscriptions;
  };
  std::vector<worker_view> workers() const;
  struct channel_view {
    std::string_view name;
    std::size_t workers;
    bool active;
  };
  std::vector<channel_view> channels() const;
  // What the workers are as a crowd, without a look at their channels.
  struct crowd {
    std::array<std::size_t, 4> by_dialect{};
    std::size_t subscriptions = 0;
    std::size_t outbox_frames = 0;
    std::size_t behind = 0;          // workers with something unsent
    std::size_t fullest_bytes = 0;   // of payloads, in the fullest outbox: what outbox_max_bytes bounds
    std::size_t fullest_frames = 0;  // and outbox_max_frames
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
  std::size_t outbox_bytes() const { return outbox_bytes_; }
  bool holds_subscriptions(worker_id id) const;

 private:
  struct worker;
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
  channel* open_channel(const std::string& name);
  void touch(worker& w);
  void settle(worker& w, std::size_t bytes_before);  // accounts, judges caps
  void queue_status(worker& w, std::array<frame_ptr, 4>& cache, pgwake::steady_time now);
  void queue_acks(worker& w, channel& c, subscription& s, pgwake::steady_time now);
  void drop(channel& c, std::size_t index);
  void release(worker& w);
  void remove(worker& w);
  void queue_gap(worker& w, subscription& s, routed& gap, pgwake::steady_time now);
  void impatient(const std::string& name, pgwake::steady_time now);
  void judge_total();

  limits limits_;
  std::vector<const dialect*> dialects_;
  std::unordered_map<worker_id, std::unique_ptr<worker>> workers_;
  channel_table channels_;
  std::unordered_map<std::string, worker_id, name_hash, std::equal_to<>> tokens_;
  std::vector<action> actions_;
  std::vector<worker_id> touched_;
  wake_run run_;
  std::vector<worker_id> doomed_;  // over a cap; removed once the loop that found them is over
  pgwake::status status_;
  std::optional<pgwake::steady_time> next_heartbeat_;
  std::unordered_map<std::string, pgwake::steady_time> impatient_;  // channels with v0 subs that wait
  worker_id last_id_ = 0;
  std::size_t outbox_bytes_ = 0;
  totals totals_;
  duration_histogram ack_latency_;
  duration_histogram wake_latency_;
};

}  // namespace pgwaked
