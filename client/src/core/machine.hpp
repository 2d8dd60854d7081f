#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client/src/core/failover.hpp"
#include "common/upstream.hpp"

namespace pgwake::client {

// Beside those of the failover core:
struct open_session {};  // answer session_opened() or session_failed(); one attempt at a time
// Answer session_result().
struct query_session {
  std::string sql;
};
struct close_session {};                          // no answer
using notify_outside = upstream::notify_outside;  // answer session_notified_outside()
using machine_action =
    std::variant<connect_hub, close_hub, send_hub, acquire_slot, release_slot, deliver, forget, answered,
                 open_session, query_session, close_session, notify_outside>;
using machine_actions = std::vector<machine_action>;

// One whole client without its I/O: the failover core, and the life of its own PostgreSQL session, which is
// the very code that the hub uses (C5). This is what the shell drives, and the simulation.
class machine {
 public:
  machine(failover_settings f, upstream::settings u, std::uint64_t seed);

  void resume(const std::string& channel) { failover_.resume(channel); }
  void start(steady_time now, machine_actions& out);
  void stop(machine_actions& out);
  void subscribe(std::uint64_t request, const std::string& channel, std::optional<steady_time> until,
                 steady_time now, machine_actions& out);
  void unsubscribe(const std::string& channel, steady_time now, machine_actions& out);

  void hub_connected(steady_time now, machine_actions& out);
  void hub_failed(std::string reason, bool hopeless, steady_time now, machine_actions& out);
  void hub_denied(std::string reason, steady_time now, machine_actions& out);
  void hub_closed(std::string reason, steady_time now, machine_actions& out);
  void hub_message(from_hub message, steady_time now, machine_actions& out);
  // A wake. True: it is handed out as it is, as nearly all are, and `out` is to be delivered at once. False:
  // what there is to do is in `todo`.
  bool hub_wake(wake&& w, steady_time now, machine_actions& todo, event& out);
  void slot(bool granted, std::string trouble, steady_time now, machine_actions& out);

  // An attempt that was begun for an own connection since given up serves the next one as well.
  void session_opened(const session_info& info, steady_time now, machine_actions& out);
  void session_failed(const connect_failure& failure, steady_time now, machine_actions& out);
  void session_notified_outside(std::string_view payload, const std::string& trouble, steady_time now,
                                machine_actions& out);
  void session_heard(steady_time now);
  void session_result(const query_result& r, steady_time now, machine_actions& out);
  void session_notification(int by, std::string_view channel, std::string_view payload, steady_time now,
                            machine_actions& out);
  void session_lost(std::string reason, steady_time now, machine_actions& out);

  // `quiet`: a read pass over both links just found nothing.
  void tick(steady_time now, bool quiet, machine_actions& out);
  std::optional<steady_time> deadline() const;

  const failover& core() const { return failover_; }
  bool session_wanted() const { return upstream_.has_value(); }
  std::uint64_t own_sessions() const { return own_sessions_; }

 private:
  void run(steady_time now, machine_actions& out);
  void carry_out(action& a, steady_time now, machine_actions& out);
  void upstream_did(steady_time now, machine_actions& out);

  failover failover_;
  upstream::settings upstream_settings_;
  std::uint64_t seed_;
  std::optional<upstream> upstream_;
  bool known_live_ = false;
  std::string database_;
  std::string system_id_;
  std::uint64_t own_sessions_ = 0;
  actions mine_;
  upstream::actions theirs_;
};

}  // namespace pgwake::client
