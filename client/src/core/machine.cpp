#include "client/src/core/machine.hpp"

#include <type_traits>
#include <utility>

#include "common/channel.hpp"

namespace pgwake::client {

machine::machine(failover_settings f, upstream::settings u, std::uint64_t seed)
    : failover_(std::move(f), seed), upstream_settings_(std::move(u)), seed_(seed) {}

// What the core wants may make the session's life say something, which may make the core want more.
void machine::run(steady_time now, machine_actions& out) {
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    auto a = std::move(mine_[i]);
    carry_out(a, now, out);
  }
  mine_.clear();
}

void machine::carry_out(action& a, steady_time now, machine_actions& out) {
  std::visit(
      [&](auto& x) {
        using kind = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<kind, start_own>) {
          upstream_.emplace(upstream_settings_, ++seed_);
          known_live_ = false;
          upstream_->start(now, theirs_);
        } else if constexpr (std::is_same_v<kind, stop_own>) {
          if (upstream_) upstream_->stop(theirs_);
          upstream_did(now, out);
          upstream_.reset();
        } else if constexpr (std::is_same_v<kind, want_own>) {
          if (upstream_ && upstream_->want(x.channel, now, theirs_))
            failover_.own_activated(x.channel, now, mine_);
        } else if constexpr (std::is_same_v<kind, unwant_own>) {
          if (upstream_) upstream_->unwant(x.channel, now, theirs_);
        } else if constexpr (std::is_same_v<kind, say_own>) {
          if (upstream_) upstream_->say(std::move(x.payload), now, theirs_);
        } else {
          out.emplace_back(std::move(x));
        }
      },
      a);
  upstream_did(now, out);
}

void machine::upstream_did(steady_time now, machine_actions& out) {
  if (!theirs_.empty()) {
    auto did = std::exchange(theirs_, {});
    for (auto& a : did) {
      std::visit(
          [&](auto& x) {
            using kind = std::decay_t<decltype(x)>;
            if constexpr (std::is_same_v<kind, upstream::connect>) {
              out.emplace_back(open_session{});
            } else if constexpr (std::is_same_v<kind, upstream::send>) {
              out.emplace_back(query_session{std::move(x.sql)});
            } else if constexpr (std::is_same_v<kind, upstream::close>) {
              out.emplace_back(close_session{});
            } else if constexpr (std::is_same_v<kind, upstream::notify_outside>) {
              out.emplace_back(std::move(x));
            } else if constexpr (std::is_same_v<kind, upstream::activated>) {
              failover_.own_activated(x.channel, now, mine_);
            } else if constexpr (std::is_same_v<kind, upstream::refused>) {
              failover_.own_refused(x.channel, x.why, x.reason, now, mine_);
            } else if constexpr (std::is_same_v<kind, upstream::lost>) {
              known_live_ = false;
              failover_.own_lost(x.reason, now, mine_);
            } else if constexpr (std::is_same_v<kind, upstream::health>) {
              if (!x.healthy && !upstream_->live())
                failover_.own_trouble(x.detail.empty() ? x.reason : x.reason + ": " + x.detail, now, mine_);
            } else if constexpr (std::is_same_v<kind, upstream::identified>) {
              database_ = std::move(x.database);
              system_id_ = std::move(x.system_id);
            } else if constexpr (std::is_same_v<kind, upstream::said>) {
              failover_.own_said(x.payload, x.ok, now, mine_);
            }
          },
          a);
    }
  }
  if (upstream_ && upstream_->live() && !std::exchange(known_live_, true)) {
    ++own_sessions_;
    failover_.own_live(database_, system_id_, upstream_->backend(), now, mine_);
  }
}

void machine::start(steady_time now, machine_actions& out) {
  failover_.start(now, mine_);
  run(now, out);
}

void machine::stop(machine_actions& out) {
  failover_.stop(mine_);
  run({}, out);
}

void machine::subscribe(std::uint64_t request, const std::string& channel, std::optional<steady_time> until,
                        steady_time now, machine_actions& out) {
  failover_.subscribe(request, channel, until, now, mine_);
  run(now, out);
}

void machine::unsubscribe(const std::string& channel, steady_time now, machine_actions& out) {
  failover_.unsubscribe(channel, now, mine_);
  run(now, out);
}

void machine::hub_connected(steady_time now, machine_actions& out) {
  failover_.hub_connected(now, mine_);
  run(now, out);
}

void machine::hub_denied(std::string reason, steady_time now, machine_actions& out) {
  failover_.hub_denied(std::move(reason), now, mine_);
  run(now, out);
}

void machine::hub_failed(std::string reason, bool hopeless, steady_time now, machine_actions& out) {
  failover_.hub_failed(std::move(reason), hopeless, now, mine_);
  run(now, out);
}

void machine::hub_closed(std::string reason, steady_time now, machine_actions& out) {
  failover_.hub_closed(std::move(reason), now, mine_);
  run(now, out);
}

void machine::hub_message(from_hub message, steady_time now, machine_actions& out) {
  failover_.hub_message(std::move(message), now, mine_);
  run(now, out);
}

// Never ahead of what came before it.
bool machine::hub_wake(wake&& w, steady_time now, machine_actions& todo, event& out) {
  if (todo.empty() && failover_.passes(w, now, out)) return true;
  hub_message(std::move(w), now, todo);
  return false;
}

void machine::slot(bool granted, std::string trouble, steady_time now, machine_actions& out) {
  failover_.slot(granted, std::move(trouble), now, mine_);
  run(now, out);
}

void machine::session_opened(const session_info& info, steady_time now, machine_actions& out) {
  if (!upstream_) {
    out.emplace_back(close_session{});
    return;
  }
  upstream_->connected(info, now, theirs_);
  upstream_did(now, out);
  run(now, out);
}

void machine::session_failed(const connect_failure& failure, steady_time now, machine_actions& out) {
  if (!upstream_) return;
  upstream_->connect_failed(failure, now, theirs_);
  upstream_did(now, out);
  run(now, out);
}

void machine::session_notified_outside(std::string_view payload, const std::string& trouble, steady_time now,
                                       machine_actions& out) {
  if (!upstream_) return;
  upstream_->notified_outside(payload, trouble, now, theirs_);
  upstream_did(now, out);
  run(now, out);
}

void machine::session_heard(steady_time now) {
  if (upstream_) upstream_->heard(now);
}

void machine::session_result(const query_result& r, steady_time now, machine_actions& out) {
  if (!upstream_) return;
  upstream_->result(r, now, theirs_);
  upstream_did(now, out);
  run(now, out);
}

void machine::session_notification(int by, std::string_view channel, std::string_view payload,
                                   steady_time now, machine_actions& out) {
  if (!upstream_) return;
  const bool check = channel == fence_channel && upstream_->own_check(payload, now, theirs_);
  if (check)
    upstream_did(now, out);
  else
    failover_.own_notification(by, channel, payload, now, mine_);
  run(now, out);
}

void machine::session_lost(std::string reason, steady_time now, machine_actions& out) {
  if (!upstream_) return;
  upstream_->session_lost(std::move(reason), now, theirs_);
  upstream_did(now, out);
  run(now, out);
}

void machine::tick(steady_time now, bool quiet, machine_actions& out) {
  failover_.tick(now, quiet, mine_);
  run(now, out);
  if (!upstream_) return;
  upstream_->tick(now, quiet, theirs_);
  upstream_did(now, out);
  run(now, out);
}

std::optional<steady_time> machine::deadline() const {
  auto at = failover_.deadline();
  if (!upstream_) return at;
  const auto theirs = upstream_->deadline();
  if (!at || (theirs && *theirs < *at)) at = theirs;
  return at;
}

}  // namespace pgwake::client
