#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/backoff.hpp"
#include "common/errc.hpp"
#include "common/message.hpp"
#include "common/time.hpp"

// The words that the client's pure cores and its shells share.
namespace pgwake::client {

enum class side { none, hub, own };
enum class policy { listener, poll, none, direct };

// What the application is given.
struct event {
  enum class kind { wake, state, refused };
  kind what = kind::wake;
  side source = side::none;
  gap_cause gap = gap_cause::none;
  int by = 0;
  bool healthy = false;                // of a state
  std::string channel;                 // empty for a state
  std::optional<std::string> payload;  // nullopt: durable, or a gap
  std::string reason;                  // of a state or a refusal, for people

  bool ephemeral() const { return what == kind::wake && payload.has_value(); }
  std::size_t bytes() const { return channel.size() + (payload ? payload->size() : 0) + reason.size(); }
};

// How a subscribe ended.
struct answer {
  enum class verdict { ok, timeout, nack, ended };
  verdict how = verdict::ok;
  code why = code::invalid_channel;  // of a nack
  std::string reason;
};

struct failover_settings {
  client::policy policy = client::policy::listener;
  bool reattach = true;
  std::string name;                     // told to the hub
  std::optional<std::string> database;  // expected of the hub
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
  std::string token;  // unguessable, of this handle: marks its own cuts in the NOTIFY queue
};

// What the failover core wants done.
struct connect_hub {};  // answer hub_connected() or hub_failed()
struct close_hub {};    // no answer
struct send_hub {
  from_worker message;
};
struct start_own {};  // answer own_live() one day, own_lost() when it is over, again and again
struct stop_own {};   // no answer, nothing more of it
struct want_own {
  std::string channel;
};  // answer own_activated() or own_refused(), in each session anew
struct unwant_own {
  std::string channel;
};
struct say_own {
  std::string payload;
};                       // NOTIFY on the fence channel; answer own_said()
struct acquire_slot {};  // answer slot()
struct release_slot {};
struct deliver {
  event what;
};
struct forget {
  std::string channel;
};  // drop what waits of it in the application's queue
struct answered {
  std::uint64_t request;
  answer how;
};
using action = std::variant<connect_hub, close_hub, send_hub, start_own, stop_own, want_own, unwant_own,
                            say_own, acquire_slot, release_slot, deliver, forget, answered>;
using actions = std::vector<action>;

const char* to_string(side s) noexcept;

}  // namespace pgwake::client
