#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/code.hpp"
#include "common/time.hpp"
#include "daemon/core/dialect.hpp"
#include "daemon/core/hub.hpp"
#include "daemon/core/worker_protocol.hpp"
#include "daemon/door/session.hpp"

namespace pgwaked {

// Wakes as NotificationResponse; all else a session of the front door says by itself.
class dialect_pg final : public dialect {
 public:
  std::string name(std::string_view channel) const override { return std::string(channel); }
  bool answers_itself() const override { return true; }
  void encode(std::string&, const pgwake::from_hub&) const override {}
  void encode(std::string& out, const pgwake::wake_view& wake) const override;
};

// The sessions of the front door, between the engine and their protocol. Pure: what has to be done
// is in `actions()`.
//
//   knocking    the startup packet has not come
//   waiting     it asked to be let in while there is no healthy session; until `grace` (P4)
//   inside      it is spoken to
//   lapsed      the upstream was lost while it listened: no wake goes out any more (P13). Once all is active
//               again it is told by a notification on `pgwake.gap`, if it listens there, or else closed
//   leaving     its last message is said
class front_door {
 public:
  struct limits {
    pgwake::millis frame_deadline{10'000};
    pgwake::millis grace{15'000};  // an outage that lasts longer closes who listens, and lets nobody in
  };
  struct upstream_facts {
    int version = 0;  // as libpq has it: 150018
    std::string database;
  };

  struct subscribe {
    worker_id worker;
    std::string channel;
  };
  struct unsubscribe {
    worker_id worker;
    std::string channel;
  };
  struct say {
    worker_id worker;
    std::string bytes;
  };
  struct hold {
    worker_id worker;
    bool on;
  };
  struct admitted {
    worker_id worker;
    std::string name;
  };
  // All is said. `sqlstate` empty: the client went by itself.
  struct close {
    worker_id worker;
    std::string sqlstate;
    std::string reason;
  };
  // A statement that does not belong here, for the log.
  struct not_served {
    worker_id worker;
    door::sql_error why;
  };
  // What the session keeps in memory at its client's wish, in whole KiB.
  struct keeps {
    worker_id worker;
    std::size_t bytes;
  };
  using action = std::variant<subscribe, unsubscribe, say, hold, admitted, close, not_served, keeps>;

  explicit front_door(limits l);
  ~front_door();
  front_door(const front_door&) = delete;
  front_door& operator=(const front_door&) = delete;
  void change(limits l) { limits_ = l; }

  // `refusal`: it is not to be let in, and hears why once it has said what it wants. `secret`: for its key.
  void join(worker_id id, channel_access access, std::optional<door::sql_error> refusal, std::uint64_t secret,
            pgwake::steady_time now);
  bool has(worker_id id) const { return seats_.contains(id); }
  void bytes(worker_id id, std::string_view data, pgwake::steady_time now);
  bool may_read(worker_id id) const;
  // Who has read answers, and has more to ask.
  bool stalled(worker_id id) const;
  void resume(worker_id id, pgwake::steady_time now);
  void leave(worker_id id);

  void acked(worker_id id, const std::string& channel, pgwake::steady_time now);
  void denied(worker_id id, const hub::denied& why, pgwake::steady_time now);
  void dismiss(worker_id id, const door::sql_error& why, pgwake::steady_time now);

  void served_by(upstream_facts facts, pgwake::steady_time now);
  void lost(pgwake::steady_time now);
  void health(bool healthy, pgwake::steady_time now);
  void drain(pgwake::millis grace, pgwake::steady_time now);

  void tick(pgwake::steady_time now);
  std::optional<pgwake::steady_time> deadline() const;
  std::vector<action>& actions() { return actions_; }

  std::size_t refused() const { return refused_; }  // who are to be told so, and are still here
  std::size_t listeners() const;
  // For status: starting, waiting, idle, in transaction, failed transaction, listening, held; and the name as
  // SET has left it. Empty: no such session.
  std::pair<std::string_view, std::string> view(worker_id id) const;
  struct counted {
    std::uint64_t gap_closes = 0;
    std::uint64_t gap_notices = 0;
  };
  const counted& counts() const { return counts_; }
  const door::tally& tally() const { return tally_; }

 private:
  struct seat;
  using seats = std::unordered_map<worker_id, std::unique_ptr<seat>>;

  seat* find(worker_id id) const;
  void after(worker_id id, seat& s, pgwake::steady_time now);
  void carry_out(worker_id id, seat& s, door::session::action& a, pgwake::steady_time now);
  void want(worker_id id, seat& s, const std::string& channel);
  void judge_admission(worker_id id, seat& s, pgwake::steady_time now);
  void finish(worker_id id, seat& s, const door::sql_error& why, pgwake::steady_time now);
  void finish_at(worker_id id, seat& s, pgwake::steady_time at, door::sql_error why);
  void tell_gap(seat& s);
  void forget_gap(seat& s);
  void judge_outage(worker_id id, seat& s, pgwake::steady_time at);
  void watch(worker_id id, seat& s, pgwake::steady_time now);
  bool outage_is_long(pgwake::steady_time now) const;

  limits limits_;
  seats seats_;
  std::unordered_map<std::uint32_t, worker_id> by_pid_;
  std::set<std::pair<pgwake::steady_time, worker_id>> due_;
  std::vector<action> actions_;
  std::optional<upstream_facts> facts_;
  bool healthy_ = false;
  bool draining_ = false;
  std::optional<pgwake::steady_time> outage_since_;
  bool long_outage_ = false;  // and all who listened were closed
  std::uint32_t last_pid_ = 0;
  std::size_t refused_ = 0;
  counted counts_;
  door::tally tally_;
};

}  // namespace pgwaked
