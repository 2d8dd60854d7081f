#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/backoff.hpp"
#include "common/code.hpp"
#include "common/time.hpp"

namespace pgwake {

// Wanted against active channels: which batch of LISTEN or UNLISTEN goes out next, and what
// its outcome means.
//
// States of a channel:
//
//   waiting    wanted, not active, in no batch; may have to wait for a retry
//   listening  in the LISTEN batch in flight
//   active     the server has committed its LISTEN in the live session
//   leaving    in the UNLISTEN batch in flight
//
// A channel nobody wants is forgotten at once unless it is active (then it lingers) or in flight.
// Invariants: at most one batch is in flight; LISTENs and UNLISTENs never share one (a failing LISTEN would
// roll the UNLISTEN back); a channel becomes `active` only when its batch was committed; an UNLISTEN goes out
// only for a channel that nobody wants, so it cannot overtake a new sub.
//
// The server sends no notification to a session during its command, and a LISTEN or UNLISTEN takes it the longer the more
// channels the session has: 0.1 ms each at 20,000. So once all that was wanted at the session's start is active, a
// batch has only as many names as take about `pause`, or one more round trip where that is longer.
class listen_plan {
 public:
  struct limits {
    std::size_t batch = 1000;
    std::size_t smallest_batch = 250;  // however long they take: four times the round trips at the most
    millis pause{10};
    millis linger{30'000};
    backoff_limits retry{};
    unsigned fruitless_before_replacing = 3;
  };

  // What the owner must be told. `refused`: the channel was wanted and never will be (forgotten here).
  // `retrying`: its LISTEN failed on its own, it stays pending. `replace_session`: no LISTEN works here: each
  // channel that is wanted has failed on its own.
  struct event {
    enum class kind { activated, refused, retrying, released, replace_session };
    kind what;
    std::string channel;
    code why = code::listen_failed;
    std::string sqlstate;
    std::string reason;
  };

  enum class purpose { listen, unlisten, take_back };

  struct batch {
    purpose why = purpose::listen;
    std::vector<std::string> names;
    std::string sql;  // one simple query
    std::size_t statements = 0;
  };

  // The batch's outcome after ReadyForQuery. `row`: the batch's names as the server has them, of a LISTEN
  // where they are compared.
  struct outcome {
    bool ok = false;
    std::vector<std::optional<std::string>> row{};
    std::string sqlstate;
    std::string message;
  };

  listen_plan(limits l, std::uint64_t seed) : limits_(l), jitter_(seed), most_names_(l.batch) {}

  // True if the channel is active already; else an `activated` or `refused` follows. Those of one asker are
  // LISTENed in the order they were wanted, those of several in turns, so that nobody waits behind a crowd.
  bool want(const std::string& channel, std::uint64_t asker = 0);
  // Channels that are wanted and too long for a database in which every byte of theirs counts: forgotten
  // here. Only while there is no session.
  std::vector<std::string> drop_too_long();
  // Nobody wants it any more.
  void unwant(const std::string& channel, steady_time now);

  bool active(const std::string& channel) const;

  // The next batch; nullopt when there is nothing to send now. Only while none is in flight.
  std::optional<batch> next(steady_time now);
  bool in_flight() const { return in_flight_.has_value(); }
  void done(const outcome& result, steady_time now, std::vector<event>& out);

  // The session is gone: nothing is active, nothing is in flight, all that is wanted waits.
  void session_lost();

  // When next() may have something to send though nothing else happens; nullopt: never.
  std::optional<steady_time> deadline() const;

  // Lets the oldest lingering channels go early, until at most `most` are held or none lingers.
  void shrink(std::size_t most);

  // In this session's database a name may be another one to the server: cut, or one of several that its
  // encoding has one character for. Each LISTEN then asks how the server has its names, and one that it has
  // otherwise is refused and taken back: notifications would come under a name that nobody asked for.
  void compare_names(bool on) { compare_ = on; }

  void set_linger(millis linger) { limits_.linger = linger; }

  // Adds the channels that are active and wanted.
  void collect_active(std::unordered_set<std::string>& out) const;

  std::size_t wanted_count() const { return wanted_; }
  std::size_t active_count() const { return active_; }  // as pg_listening_channels() would count ours
  std::size_t held_count() const { return entries_.size(); }

 private:
  enum class state { waiting, listening, active, leaving };
  using place = std::pair<std::uint64_t, std::uint64_t>;  // the round, and who was first within it
  struct entry {
    state now = state::waiting;
    bool wanted = true;
    place at{};  // in queue_, if `queued`
    bool queued = false;
    unsigned failures = 0;  // on its own, since it last worked
    steady_time since{};    // key in lingering_ or retries_
  };
  using table = std::unordered_map<std::string, entry>;
  using timed = std::set<std::pair<steady_time, std::string>>;

  void enqueue(const std::string& channel, entry& e, std::uint64_t asker = 0);
  void forget_rounds();
  void dequeue(const std::string& channel, entry& e);
  void set_state(entry& e, state s);
  void linger(const std::string& channel, entry& e, steady_time now);
  std::optional<batch> next_listen(steady_time now);
  std::optional<batch> next_unlisten(steady_time now);
  std::optional<batch> next_taking_back();
  bool take(const std::string& channel, batch& b);
  void listened(std::vector<std::string> names, const outcome& result, steady_time now,
                std::vector<event>& out);
  void committed(const std::vector<std::string>& names, const outcome& result, steady_time now,
                 std::vector<event>& out);
  void has_another_name(const std::string& name, std::string as_it_is, std::vector<event>& out);
  void unlistened(const std::vector<std::string>& names, const outcome& result, steady_time now,
                  std::vector<event>& out);
  void failed_alone(const std::string& name, const outcome& result, steady_time now, std::vector<event>& out);
  void split(std::vector<std::string> names);
  void unmark(entry& e);
  void learn_pace(std::size_t names, steady_time now);

  limits limits_;
  jitter jitter_;
  table entries_;
  std::map<place, std::string> queue_;                       // waiting, one of each asker a round
  std::uint64_t round_ = 0;                                  // of what was taken from it last
  std::unordered_map<std::uint64_t, std::uint64_t> rounds_;  // asker -> that of its last channel
  std::deque<std::vector<std::string>> groups_;  // halves of a failed batch, tried before the queue
  timed retries_;                                // waiting, not before that time
  timed lingering_;                              // active and unwanted since that time
  struct other_name {
    std::string name;
    std::string as_it_is;  // to the server
  };
  std::vector<other_name> others_;  // the server LISTENs to them now
  std::optional<batch> in_flight_;
  bool compare_ = false;
  bool last_was_listen_ = false;
  std::uint64_t places_ = 0;
  std::size_t wanted_ = 0;
  std::size_t active_ = 0;
  unsigned fruitless_ = 0;   // LISTENs that failed on their own since one last worked
  std::size_t failing_ = 0;  // wanted, and failed on their own when last tried in this session
  std::size_t give_up_ = 0;  // lingering channels to let go before their time
  steady_time unlisten_not_before_{};
  bool restoring_ = true;       // the session has not caught up with what is wanted yet
  std::size_t most_names_ = 0;  // of the next batch
  steady_time sent_{};          // the batch in flight
  std::optional<steady_time::duration> round_trip_{};  // the quickest batch of this session
};

}  // namespace pgwake
