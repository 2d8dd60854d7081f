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
  evicted_in_time,
  flooded,
  turns_taken,
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
  v0_turned_away,
  v0_unserved,
  died_silently,
  deaf_session,
  pooler_refused,
  standby_refused,
  login_refused,
  ghost_holds_slot,
  notify_could_not_commit,
  fence_passed,
  fence_dropped,
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
  attempt_abandoned,
  no_thread,
  file_that_does_not_come,
  empty_answer,
  unasked_answer,
  name_that_is_another,
  operator_reconnect,
  worker_died_with_backlog,
  driver_committed,
  driver_told_of_gap,
  driver_closed_at_gap,
  driver_turned_away,
  driver_evicted,
  // Of the world with clients:
  handover_exact,
  handover_aborted,
  fell_back,
  hub_drained,
  hub_killed,
  hub_frozen,
  own_session_lost,
  client_gap,
  fence_repeated,
  fence_foreseen,
  hub_found_full,
  yielded_to_hub,
  slot_denied,
  count
};

inline constexpr std::array<const char*, static_cast<std::size_t>(rare::count)> rare_names = {
    "worker evicted: its own cap",
    "worker evicted: fullest of the fullest user's",
    "worker evicted: over its cap for too long",
    "worker floods",
    "users take turns",
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
    "v0 sub acked early",
    "v0 worker closed with a nack",
    "v0 worker closed because logins are refused",
    "session died silently",
    "deaf session",
    "pooler refused",
    "standby refused",
    "login refused",
    "slot still held by a session the server has not missed yet",
    "self-NOTIFY could not commit",
    "fence passed",
    "fence kept from a worker whose stream has a hole",
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
    "attempt abandoned by the operator",
    "no thread to connect on",
    "file that does not come",
    "server ready without having answered",
    "answer that was not asked for",
    "name that is another one to the server",
    "operator's reconnect",
    "worker died with a backlog",
    "driver committed a transaction",
    "driver told of a gap",
    "driver closed at a gap",
    "driver turned away in an outage",
    "driver evicted",
    "exact hand-over",
    "hand-over aborted",
    "client fell back without a fence",
    "hub drained and stopped",
    "hub killed",
    "hub stood still",
    "client's own session lost",
    "gap handed out by a client",
    "fence repeated by a stranger",
    "fence foreseen by a stranger",
    "hub found no connection to spare",
    "client left its connection to the hub",
    "client without a slot",
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
