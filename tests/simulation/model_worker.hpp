#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/frame.hpp"
#include "daemon/core/engine.hpp"

namespace pgwake::simulation {

// One worker and one channel, as the worker knows it and as the hub should.
struct channel_state {
  struct asked {
    std::uint64_t seq;
    steady_time processed;
  };
  // What the worker sent.
  bool wants = false;
  std::uint64_t unsub_seq = 0;  // its last unsub
  std::uint64_t last_sub = 0;
  std::deque<std::uint64_t> unanswered;  // subs whose answer was not received
  // What the hub has read of it.
  bool held = false;
  bool told = false;  // acked, and held since
  std::uint64_t last_processed = 0;
  std::uint64_t fresh_from =
      0;  // frames queued when it subscribed anew: what waits from before does not coalesce
  std::deque<std::uint64_t> answers;  // queued, not received: the sub's number, 0: a nack after the ack
  std::deque<asked> pending;          // subs whose answer was not queued
  // The promise.
  bool covered =
      false;  // an ack of the last sub was queued: every commit from now on arrives, or a gap after it
  bool real = false;  // its LISTEN was committed, not only promised (v0 in an outage)
  bool owes_gap = false;
  bool gap_came = false;          // the last wake was a gap, or one came in the present session
  std::size_t lost_at = 0;        // when that came to be: what is committed later comes from a newer session
  std::deque<std::size_t> due;    // ephemeral commits that must arrive
  std::deque<std::size_t> dirty;  // durable commits of which it has not heard

  void end_promise() {
    covered = real = owes_gap = false;
    due.clear();
    dirty.clear();
  }
};

struct model_worker {
  pgwaked::worker_id id = 0;
  std::uint32_t uid = 33;
  bool v1 = false;
  bool open = true;
  bool stalled = false;
  bool lazy = false;         // sends little by little
  bool doomed = false;       // it sent what must end its connection
  bool refused = false;      // and takes no `nack`: the hub must close it
  bool holds_frame = false;  // it sent part of a frame and never sends the rest
  std::string token;

  // To the hub.
  enum class sent { hello, sub, unsub, ping, fault, other };
  struct sent_frame {
    std::size_t end;
    sent what;
    std::string channel;
    std::uint64_t seq;
  };
  std::string out;
  std::size_t out_sent = 0;   // of all time, delivered
  std::size_t out_total = 0;  // of all time, written
  std::deque<sent_frame> in_flight;
  std::deque<sent_frame> waiting;  // delivered, and not taken by the hub
  std::uint64_t taken = 0;
  std::uint64_t next_seq = 1;

  // From the hub.
  std::string pipe;
  std::size_t capacity = 4096;
  frame_reader reader{max_frame_from_hub};
  std::uint64_t queued = 0;   // frames ever queued for it, as far as looked at
  std::uint64_t written = 0;  // frames ever written whole
  std::uint64_t received = 0;
  std::optional<steady_time> over_since;  // its cap of payloads
  steady_time took_at{};                  // bytes
  std::string cut_frame;                  // what was written of a frame that is not written whole
  bool welcomed = false;
  bool said_bye = false;
  std::ptrdiff_t last_commit = -1;
  std::uint64_t acked_seq = 0;
  std::deque<std::uint64_t> pings;
  std::map<std::uint64_t, std::size_t> fences;    // sent to it: id -> commit
  std::map<std::string, channel_state> channels;  // by physical channel; invalid names by their echo
};

}  // namespace pgwake::simulation
