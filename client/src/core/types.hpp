#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/backoff.hpp"
#include "common/code.hpp"
#include "common/message.hpp"
#include "common/secret.hpp"
#include "common/time.hpp"

// The words that the client's pure cores and its shells share.
namespace pgwake::client {

enum class side { none, hub, own };

// Begins the name of a channel that nobody has, whose answer by the hub is a cut.
inline constexpr const char* cut_channel = "pgwake_cut_";
enum class policy { listener, poll, none, direct };

// How a subscribe ended.
struct answer {
  enum class verdict { ok, timeout, nack, ended };
  verdict how = verdict::ok;
  code why = code::invalid_channel;  // of a nack
  std::string reason;
};

// As the C library's allocator has it: a header, and a multiple of 16.
inline std::size_t heap_of(const std::string& text) {
  constexpr std::size_t inside = 15;  // the string itself
  return text.capacity() <= inside ? 0 : (text.capacity() + 1 + 8 + 15) / 16 * 16;
}

// What the application is given.
struct event {
  enum class kind { wake, state, refused, subscribed };
  kind what = kind::wake;
  side source = side::none;
  gap_cause gap = gap_cause::none;
  int by = 0;
  bool healthy = false;                // of a state
  bool forked = false;                 // of a gap: the first of a channel that was kept through a fork
  std::string channel;                 // empty for a state
  std::optional<std::string> payload;  // nullopt: durable, or a gap
  std::string reason;                  // of a state, a refusal or an answer, for people
  std::uint64_t id = 0;                // of an answer: the number that the application gave its question
  answer::verdict how = answer::verdict::ok;  // of an answer

  bool ephemeral() const { return what == kind::wake && payload.has_value(); }
  // What its texts take of the heap.
  std::size_t heap() const { return heap_of(channel) + (payload ? heap_of(*payload) : 0) + heap_of(reason); }
};

struct failover_settings {
  client::policy policy = client::policy::listener;
  bool reattach = true;
  std::string name;                     // told to the hub
  std::optional<std::string> database;  // expected of the hub
  std::size_t max_channels = 100'000;   // of one handle; names are short, so this bounds their bytes, too
  bool limited = false;                 // an own connection needs a slot (C11)
  millis poll_interval{2'000};
  millis safety_poll{0};  // 0: off
  millis unhealthy_grace{15'000};
  millis welcome_timeout{2'000};
  millis ack_timeout{3'000};
  millis hub_patience{
      250};  // a lost hub that accepts again gets so long before the own connection is started
  millis handover_deadline{5'000};
  std::size_t handover_max_bytes = 16U << 20U;
  millis return_delay{2'000};  // after the hub is well; jittered, doubled while it does not stay well
  millis return_delay_cap{60'000};
  millis long_stay{60'000};  // on the hub: then the next return is not damped
  backoff_limits hub_retry{millis{100}, millis{2'000}};
  millis hub_retry_slow{30'000};  // it serves another database, or is not to be trusted
  millis slot_retry{1'000};
  secret_source secret;           // numbers fences, and marks cuts
  millis yield_spread{4'000};     // own connections are given up within so long for a hub that has none
  millis yield_patience{15'000};  // and if that was of no use, had again after so long
  bool may_listen() const { return policy == client::policy::listener || policy == client::policy::direct; }
};

// What the failover core wants done.
struct connect_hub {};  // answer hub_connected() or hub_failed()
struct close_hub {};    // no answer
struct send_hub {
  from_worker message;
};
struct start_own {};  // answer own_live() one day, own_lost() when it is over, again and again
struct stop_own {};   // no answer, nothing more of it
// Answer own_activated() or own_refused(), in each session anew.
struct want_own {
  std::string channel;
};
struct unwant_own {
  std::string channel;
};
// NOTIFY on the fence channel; answer own_said().
struct say_own {
  std::string payload;
};
struct acquire_slot {};  // answer slot()
struct release_slot {};
struct deliver {
  event what;
};
// Drop what waits of it in the application's queue.
struct forget {
  std::string channel;
};
struct answered {
  std::uint64_t request;
  answer how;
};
using action = std::variant<connect_hub, close_hub, send_hub, start_own, stop_own, want_own, unwant_own,
                            say_own, acquire_slot, release_slot, deliver, forget, answered>;
using actions = std::vector<action>;

const char* to_string(side s) noexcept;

}  // namespace pgwake::client
