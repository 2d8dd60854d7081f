#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/src/core/types.hpp"

namespace pgwake::client {

// One recorded channel: what the application wants of it, and how it stands on either side.
struct subscription {
  bool wanted = false;                  // subscribed, or being so
  bool acked = false;                   // the application was told that it is
  bool served = false;                  // acked, active on the side that serves, nothing owed
  gap_cause owed = gap_cause::none;     // to be announced once served
  bool at_hub = false;                  // the last frame about it was a sub, on this link
  bool hub_active = false;              // and that was acked
  unsigned unanswered = 0;              // subs without answer, on this link
  bool at_own = false;                  // wanted of the own connection
  bool own_active = false;              // active in its present session
  bool joining = false;                 // a hand-over waits for it to be active on the new side
  bool deferred = false;                // changed during a hand-over: its frames wait for the end
  std::vector<std::uint64_t> requests;  // subscribe calls that wait

  bool active(side s) const { return s == side::hub ? hub_active : s == side::own && own_active; }
};

// The recorded set, and the calls that wait with their deadlines. Invariant: an entry exists while anything
// of it is true or unanswered.
class subscriptions {
 public:
  using table = std::unordered_map<std::string, subscription>;

  subscription& record(const std::string& channel);
  subscription* find(const std::string& channel);
  bool wants(const std::string& channel) const;
  void want(subscription& s);
  void unwant(subscription& s);  // nor acked, served, owed
  void set_acked(subscription& s, bool acked);
  void set_served(subscription& s, bool served);
  // A hand-over waits for it to be active on the new side, or no longer does.
  void set_joining(subscription& s, bool joining);
  void end_joining();
  // Changed during a hand-over: put off until its end.
  void defer(const std::string& channel, subscription& s);
  std::vector<std::string> take_deferred();
  // Forgets the entry if nothing holds it. Invalidates references to it.
  void tidy(const std::string& channel);

  void ask(const std::string& channel, subscription& s, std::uint64_t request,
           std::optional<steady_time> until, steady_time now);
  // The calls that wait for it wait no longer.
  std::vector<std::uint64_t> take_requests(subscription& s);

  struct expired {
    std::uint64_t request;
    std::string channel;
    steady_time asked;
  };
  std::optional<expired> next_expired(steady_time now);
  std::optional<steady_time> deadline() const;

  std::size_t wanted() const { return wanted_; }
  std::size_t unserved() const { return acked_ - served_; }
  std::size_t acked() const { return acked_; }
  std::size_t joining() const { return joining_; }
  bool waiting() const { return !requests_.empty(); }
  table& all() { return all_; }
  const table& all() const { return all_; }

 private:
  struct request {
    std::string channel;
    steady_time asked;
    std::optional<steady_time> until;
  };

  table all_;
  std::unordered_map<std::uint64_t, request> requests_;
  std::set<std::pair<steady_time, std::uint64_t>> deadlines_;
  std::size_t wanted_ = 0;
  std::size_t acked_ = 0;
  std::size_t served_ = 0;
  std::size_t joining_ = 0;
  std::vector<std::string> deferred_;
};

}  // namespace pgwake::client
