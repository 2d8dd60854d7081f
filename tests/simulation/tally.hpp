#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace pgwake::simulation {

// A promise that was broken.
struct violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What must have happened at least once in a full run: a simulation that never gets there proves nothing
// about it.
enum class rare : std::size_t {
  evicted_slow,
  evicted_fullest,
  batch_failed,
  listen_retried,
  channel_refused,
  refused_after_ack,
  name_cut,
  name_unconvertible,
  unlisten_failed,
  wanted_while_unlistening,
  lingered_away,
  crowded,
  limit_nack,
  lost_while_relistening,
  lost_twice_before_gap,
  lost_while_checking,
  wake_overtook_listen,
  over_delivery,
  early_v0_ack,
  died_silently,
  deaf_session,
  pooler_refused,
  standby_refused,
  login_refused,
  ghost_holds_slot,
  notify_could_not_commit,
  fence_passed,
  write_cut_in_a_frame,
  reading_paused,
  frame_timed_out,
  malformed_frame,
  wrong_database,
  durable_coalesced,
  gap_received,
  bad_bytes,
  two_acks_one_write,
  unsub_before_ack,
  half_open_connect,
  operator_reconnect,
  worker_died_with_backlog,
  // Of the world with clients:
  handover_exact,
  handover_aborted,
  fell_back,
  hub_drained,
  hub_killed,
  hub_frozen,
  own_session_lost,
  client_gap,
  count
};

inline constexpr std::array<const char*, static_cast<std::size_t>(rare::count)> rare_names = {
    "worker evicted: its own cap",
    "worker evicted: fullest of all",
    "batch of LISTENs failed and was halved",
    "LISTEN failed alone and was retried",
    "channel refused by the server",
    "channel refused after it had been acked",
    "name cut by the server",
    "name without equivalent in the server's encoding",
    "UNLISTEN failed",
    "channel wanted again while its UNLISTEN was in flight",
    "UNLISTEN after the linger",
    "lingering channel given up because the hub was full",
    "sub refused because the hub was full",
    "session lost while LISTENing again",
    "session lost again before the gap was received",
    "session lost during its check",
    "wake overtook the answer of its LISTEN",
    "wake delivered before the ack",
    "v0 sub acked early in an outage",
    "session died silently",
    "deaf session",
    "pooler refused",
    "standby refused",
    "login refused",
    "slot still held by a session the server has not missed yet",
    "self-NOTIFY could not commit",
    "fence passed",
    "write cut in the middle of a frame",
    "reading paused: too many unsent answers",
    "unfinished frame timed out",
    "malformed frame",
    "worker expected another database",
    "durable wake coalesced",
    "gap received",
    "payload that is not UTF-8",
    "several subs of one channel in one write",
    "unsub before the ack",
    "connect that took long",
    "operator's reconnect",
    "worker died with a backlog",
    "exact hand-over",
    "hand-over aborted",
    "client fell back without a fence",
    "hub drained and stopped",
    "hub killed",
    "hub stood still",
    "client's own session lost",
    "gap handed out by a client",
};

struct tally {
  std::array<std::uint64_t, static_cast<std::size_t>(rare::count)> times{};
  std::uint64_t seeds = 0;
  std::uint64_t operations = 0;
  std::uint64_t notifications = 0;
  std::uint64_t frames = 0;

  void saw(rare what) { ++times[static_cast<std::size_t>(what)]; }
  void add(const tally& other) {
    for (std::size_t i = 0; i < times.size(); ++i) times[i] += other.times[i];
    seeds += other.seeds;
    operations += other.operations;
    notifications += other.notifications;
    frames += other.frames;
  }
};

}  // namespace pgwake::simulation
