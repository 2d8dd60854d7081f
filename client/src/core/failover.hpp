#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/src/core/handover.hpp"
#include "client/src/core/hub_grace.hpp"
#include "client/src/core/hub_life.hpp"
#include "client/src/core/own_life.hpp"
#include "client/src/core/own_slot.hpp"
#include "client/src/core/reminders.hpp"
#include "client/src/core/return_plan.hpp"
#include "client/src/core/stream_cut.hpp"
#include "client/src/core/subscriptions.hpp"
#include "client/src/core/types.hpp"

namespace pgwake::client {

// Who serves the application: the hub, an own connection, or nobody, and how the one follows the other.
//
// What is looked at apart has an object each, and one rule after each event (`decide`) brings them together:
//
//   hub_life      the link to the hub: off, waiting, connecting, greeting, up; healthy or not; draining
//   hub_grace     for how long a hub that is ill is borne, and when the own connection is left to it
//   own_life      the own connection: off, starting, live
//   own_slot      the right to one, where their number is limited
//   return_plan   when a hub that is well is gone back to
//   handover      the exact change of sides, by a fence
//   stream_cut    a change without a fence: what is dropped, so that nothing comes twice
//   subscriptions what the application wants, and how it stands on either side
//   reminders     when the application is to look for itself
//
// and who serves (none, hub, own: whose stream is handed out) is decided here:
//
//   serves   to     when                                                              how
//   none     hub    its link is up                                                    a gap on what was served before
//   none     own    it is live                                                        a gap
//   hub      none   its link is lost                                                  -
//   hub      own    it is unhealthy for too long and the own one is live              a gap
//   hub      own    it drains, is healthy, and the own one has the whole set          exact: by a fence
//   own      none   its session is lost                                               -
//   own      hub    its link is up and healthy, and the return is due                 exact: by a fence
//
// Invariants, as the application sees them:
//
// - Once a subscribe was answered ok, each notification is handed out once and in order, or a gap on its channel
//   is handed out after the stretch in which it may be missing, once the channel is active again.
// - Nothing is handed out twice. Where a side takes over without a fence and might repeat what the other one has
//   delivered, its stream is dropped up to a cut. For an own session that began while the hub delivered, that is
//   its own NOTIFY come back. For the hub after an own connection, it is the answer to the second of two subs of
//   channels that nobody has: the hub sends the second LISTEN only when it has passed on all that came with the
//   first.
// - Something is being tried at any time, for ever, until one serves.
// - An own connection is started only while something is subscribed, and with a limit only while holding a slot.
// - During a hand-over nothing is subscribed or unsubscribed on either side.
class failover {
 public:
  failover(failover_settings s, std::uint64_t seed);

  // Before start(): a channel that was subscribed in a former life; it will be announced with a gap.
  void resume(const std::string& channel);
  std::vector<std::string> subscribed() const;
  void start(steady_time now, actions& out);
  // Ends everything; what waits is answered `ended`. Nothing may be called after it.
  void stop(actions& out);

  // `answered` follows, at once or later; without `until`, whenever it may be.
  void subscribe(std::uint64_t request, const std::string& channel, std::optional<steady_time> until,
                 steady_time now, actions& out);
  void unsubscribe(const std::string& channel, steady_time now, actions& out);

  // The hub's link. `hopeless`: not to be trusted, say, so that trying again soon is of no use.
  void hub_connected(steady_time now, actions& out);
  void hub_failed(std::string reason, bool hopeless, steady_time now, actions& out);
  void hub_denied(std::string reason, steady_time now, actions& out);  // this process may not connect
  void hub_closed(std::string reason, steady_time now,
                  actions& out);  // by the peer, or for a malformed frame
  void hub_message(from_hub message, steady_time now, actions& out);
  // True: the wake is handed out as it is, in `out`, with nothing else to do. False: nothing has happened.
  bool passes(wake& w, steady_time now, event& out);

  // The own connection.
  // `backend`: its process ID, as notifications name it.
  void own_live(const std::string& database, const std::string& system_id, int backend, steady_time now,
                actions& out);
  void own_lost(std::string reason, steady_time now, actions& out);     // was live, and will be again
  void own_trouble(std::string reason, steady_time now, actions& out);  // why it is not live
  void own_activated(const std::string& channel, steady_time now, actions& out);
  void own_refused(const std::string& channel, code why, const std::string& reason, steady_time now,
                   actions& out);
  void own_notification(int by, std::string_view channel, std::string_view payload, steady_time now,
                        actions& out);
  void own_said(std::string_view payload, bool ok, steady_time now, actions& out);

  void slot(bool granted, std::string trouble, steady_time now, actions& out);

  // Time has passed. `quiet`: a read pass just found nothing; only then the hub's silence is judged.
  void tick(steady_time now, bool quiet, actions& out);
  std::optional<steady_time> deadline() const;

  side source() const { return announced_.source; }
  bool healthy() const { return announced_.healthy; }
  const std::string& reason() const { return announced_.reason; }
  bool handing_over() const { return handover_.active(); }
  bool holds_slot() const { return slot_.held(); }
  std::size_t channels() const { return set_.wanted(); }
  const hub_life& hub() const { return hub_; }
  struct counters {
    std::uint64_t falls = 0;  // to the own connection without a fence
    std::uint64_t handovers = 0;
    std::uint64_t aborted = 0;
    std::uint64_t yielded = 0;  // left to a hub that found no connection
  };
  const counters& counts() const { return counts_; }

 private:
  struct standing {
    side source = side::none;
    bool healthy = false;
    std::string reason;
    bool operator==(const standing&) const = default;
  };

  // failover.cpp: the application's side
  void answer_all(subscription& s, const answer& how, actions& out);
  void drop(const std::string& channel, subscription& s, answer::verdict how, steady_time now, actions& out);
  void refuse(const std::string& channel, code why, const std::string& reason, actions& out);
  void expire(steady_time now, actions& out);
  bool early() const;
  void answer_early(actions& out);
  bool degraded() const;
  bool trying_hub() const;
  void poll(steady_time now, actions& out);
  void announce(actions& out);
  std::string why_degraded() const;

  // failover_links.cpp: what the two sides say
  void hand_out(event e, actions& out);
  void route(side s, event e, steady_time now, actions& out);
  void hub_answer(const std::string& q, const nack* refusal, steady_time now, actions& out);
  void hub_refused(const std::string& q, subscription& s, const nack& refusal, steady_time now, actions& out);
  void hub_status(const status& s, steady_time now, actions& out);
  void hub_welcome(welcome w, steady_time now, actions& out);
  void drop_hub(std::string reason, bool slow, steady_time now, actions& out);
  void hub_gone(std::string reason, bool slow, steady_time now, actions& out);
  void sub(const std::string& channel, subscription& s, steady_time now, actions& out);
  void unsub(const std::string& channel, subscription& s, actions& out);
  void forget_own();
  void start_own(actions& out);
  void stop_own(actions& out);

  // failover_serving.cpp: who serves
  void decide(steady_time now, actions& out);
  void choose_side(steady_time now, actions& out);
  bool own_wanted(steady_time now) const;
  // The hub is to be left for an own connection, exactly.
  bool leaving() const { return hub_.draining() || over_limit_.has_value(); }
  void limit_stands(actions& out);
  void tend_own(steady_time now, actions& out);
  void leave(gap_cause cause, steady_time now);
  void serve(side s, steady_time now, actions& out);
  void settle(const std::string& channel, subscription& s, actions& out);
  void settle_all(actions& out);
  void reconcile(const std::string& channel, steady_time now, actions& out);
  std::string fresh_secret() const;
  std::string fresh_mark(side s) const;
  void begin_cut(side s, steady_time now, actions& out);
  void send_mark(steady_time now, actions& out);
  void hub_cut_answered(steady_time now, actions& out);
  void end_cut(actions& out);

  // failover_joining.cpp: exact hand-overs
  void consider_handover(steady_time now, actions& out);
  void begin_handover(side to, steady_time now, actions& out);
  void joined(subscription& s, steady_time now, actions& out);
  void fence_if_joined(steady_time now, actions& out);
  void passed(side s, steady_time now, actions& out);
  void abort_handover(steady_time now, actions& out);
  void break_handover(steady_time now, actions& out);
  void cancel_handover(steady_time now, actions& out);
  void complete_handover(steady_time now, actions& out);
  void side_lost(side s, steady_time now, actions& out);
  void release_deferred(steady_time now, actions& out);

  failover_settings settings_;
  jitter jitter_;
  bool running_ = false;
  hub_life hub_;
  hub_grace grace_;
  own_life own_;
  own_slot slot_;
  return_plan return_;
  handover handover_;
  stream_cut cut_;
  subscriptions set_;
  reminders reminders_;
  side serving_ = side::none;
  std::optional<std::string> over_limit_;  // the hub refused a channel for its limit, with these words
  steady_time drain_at_{};                 // the next hand-over to the own connection
  standing announced_;
  counters counts_;
};

}  // namespace pgwake::client
