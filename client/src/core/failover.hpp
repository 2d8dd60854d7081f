#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/src/core/failover_handover.hpp"
#include "client/src/core/failover_hub.hpp"
#include "client/src/core/failover_set.hpp"
#include "client/src/core/failover_types.hpp"

namespace pgwake::client {

// Who serves the application: the hub, an own connection, or nobody, and how the one follows the other.
//
// Three things are looked at apart, and one rule after each event (`decide`) brings them together:
//
//   the hub's link   hub_life: off, waiting, connecting, greeting, up; healthy or not; draining
//   the own one      off, starting (it keeps trying by itself), live; with a limit, only while holding a slot
//   who serves       none, hub, own: whose stream is handed out
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
  bool holds_slot() const { return slot_held_; }
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
  enum class own_state { off, starting, live };
  // Up to where the stream of the side that took over is dropped.
  struct cut {
    side on = side::none;
    std::string mark;  // own: the payload to come back; hub: the channel to be answered
    bool second = false;
  };
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
  void judge_full(steady_time now);
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
  bool yields(steady_time now) const;
  // The hub is to be left for an own connection, exactly.
  bool leaving() const { return hub_.draining() || over_limit_; }
  void limit_stands(actions& out);
  void tend_own(steady_time now, actions& out);
  void leave(gap_cause cause, steady_time now);
  void serve(side s, steady_time now, actions& out);
  void settle(const std::string& channel, subscription& s, actions& out);
  void settle_all(actions& out);
  void reconcile(const std::string& channel, steady_time now, actions& out);
  void begin_cut(side s, steady_time now, actions& out);
  void hub_cut_answered(steady_time now, actions& out);
  void end_cut(actions& out);
  void plan_return(steady_time now);

  // failover_joining.cpp: exact hand-overs
  void consider_handover(steady_time now, actions& out);
  void begin_handover(side to, steady_time now, actions& out);
  void joined(subscription& s, steady_time now, actions& out);
  void fence_if_joined(steady_time now, actions& out);
  void passed(side s, steady_time now, actions& out);
  void abort_handover(steady_time now, actions& out);
  void break_handover(steady_time now, actions& out);
  std::string fresh_mark() const;
  void cancel_handover(steady_time now, actions& out);
  void complete_handover(steady_time now, actions& out);
  void side_lost(side s, steady_time now, actions& out);
  void release_deferred(steady_time now, actions& out);

  failover_settings settings_;
  jitter jitter_;
  bool running_ = false;
  hub_life hub_;
  own_state own_ = own_state::off;
  std::string own_trouble_;
  std::string own_database_;
  std::string own_system_id_;
  int own_backend_ = 0;
  bool slot_held_ = false;
  bool slot_asked_ = false;
  bool slot_missed_ = false;  // wanted and not to be had: as under `poll`
  std::string slot_trouble_;
  steady_time slot_at_{};
  subscriptions set_;
  side serving_ = side::none;
  side delivered_ = side::none;  // the side whose notifications the application has seen last
  bool overlap_ = false;         // the hub has delivered since the present own session began
  cut cut_;
  handover handover_;
  std::size_t joining_ = 0;  // channels not yet active on the new side
  std::vector<std::string> deferred_;
  bool over_limit_ = false;  // the hub refused a channel for its limit
  std::string limit_reason_;
  bool full_ = false;          // the hub has said that it finds no connection
  bool yield_due_ = false;     // yield_at_ counts
  steady_time yield_at_{};     // then the own one is given up
  steady_time yield_until_{};  // for so long
  steady_time fall_at_{};      // ill health of the hub is borne until then
  bool ill_ = false;           // and has begun
  steady_time return_at_{};    // the next hand-over to the hub, once it is well
  bool return_due_ = false;    // return_at_ counts
  steady_time drain_at_{};     // the next hand-over to the own connection
  steady_time hub_since_{};    // served by it
  unsigned short_stays_ = 0;   // on the hub, in a row
  steady_time poll_at_{};
  bool polling_ = false;  // poll_at_ counts, every poll_interval
  bool safety_ = false;   // or every safety_poll
  standing announced_;
  counters counts_;
};

}  // namespace pgwake::client
