#include "daemon/app/memory_bound.hpp"

#include "common/frame.hpp"
#include "daemon/app/engine_config.hpp"
#include "daemon/core/engine.hpp"
#include "daemon/io/farewell.hpp"
#include "daemon/io/log_writer.hpp"
#include "daemon/io/worker_io.hpp"
#include "daemon/metrics/server.hpp"

namespace pgwaked {
namespace {

constexpr std::uint64_t kib = 1024;

// The program, its libraries, libpq's buffers, and what there is once: the log's lines that wait, the answer
// to `stats` that is being made (twice, while it becomes a frame), a page of metrics for each who asks.
constexpr std::uint64_t base = 64 * kib * kib;
static_assert(log_writer::max_bytes + 2 * pgwake::max_frame_from_hub +
                  metrics_server::descriptors * 128 * kib <
              base / 2);

// A channel's name in the hub's and the upstream's tables; a subscription's place in its channel's, its
// worker's and its user's.
constexpr std::uint64_t per_channel = 1 * kib;
constexpr std::uint64_t per_subscription = 164;

// A worker: itself, and the frames that it has sent and nobody has taken yet. Those stand in line while other
// users have their turns, and then no user's limit counts them.
constexpr std::uint64_t itself = 4 * kib;
constexpr std::uint64_t of_worker = itself + pgwake::max_frame_from_worker + worker_io::read_size;
// A session of the front door: two messages unread, answers to those before them, settings. What it keeps
// beyond that counts as outboxes do.
constexpr std::uint64_t of_session =
    itself + 2 * door::max_client_message + worker_io::read_size + door::session::most_said +
    door::virtual_settings::most_custom * (door::virtual_settings::most_value + 128);

// What is counted may take half as much again, in the allocator's hands.
constexpr std::uint64_t resident(std::uint64_t counted) { return counted + counted / 2; }

}  // namespace

std::uint64_t memory_bound(const settings& s) {
  const auto c = engine_config(s, UINT64_MAX);
  // Beyond max_workers: operators at a full hub; at the front door who is told why not, and who leaves.
  const auto workers =
      c.max_workers + engine::most_visitors + (s.front_door ? engine::most_refused + farewell::most : 0);
  return base + resident(c.limits.outbox_total_max_bytes) +
         resident(workers * (s.front_door ? of_session : of_worker)) +
         resident(c.limits.max_subscriptions * per_subscription) + c.limits.max_channels * per_channel;
}

}  // namespace pgwaked
