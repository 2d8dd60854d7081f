#include "common/upstream.hpp"

#include <algorithm>
#include <utility>

#include "common/channel.hpp"

namespace pgwake {
namespace {

// Everything that comes before any SET or LISTEN, so that nothing leaks to a pooler's next client.
constexpr const char* identity_sql =
    "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(), pg_catalog.current_database(), "
    "pg_catalog.current_setting('server_encoding'), pg_catalog.pg_notification_queue_usage(), "
    "pg_catalog.current_setting('max_connections'), "
    "pg_catalog.current_setting('superuser_reserved_connections'), "
    "pg_catalog.current_setting('reserved_connections', true)";
constexpr const char* probe_sql =
    "SELECT pg_catalog.pg_backend_pid(), (SELECT pg_catalog.count(*) FROM "
    "pg_catalog.pg_listening_channels()), pg_catalog.pg_notification_queue_usage()";
// As many reasons of one outage are remembered, and each is told again so often.
constexpr std::size_t most_told = 16;
constexpr millis tell_again{60'000};
constexpr const char* hears_nothing = "it passes on no notification between transactions";

}  // namespace

upstream::upstream(settings s, std::uint64_t seed)
    : settings_(std::move(s)), jitter_(seed), plan_(settings_.listen, seed + 1) {}

void upstream::start(steady_time now, actions& out) {
  if (state_ != state::idle) return;
  down_since_ = now;
  attempt(now, out);
}

void upstream::stop(actions& out) {
  if (state_ == state::checking || state_ == state::live) out.push_back(close{"stopping"});
  state_ = state::idle;
  step_ = step::none;
}

void upstream::change(const settings& s) {
  auto kept = std::move(settings_);
  settings_ = s;
  settings_.self_check = std::move(kept.self_check);
  settings_.secret = std::move(kept.secret);
  plan_.set_linger(s.listen.linger);
}

void upstream::reconnect(std::string reason, steady_time now, actions& out) {
  if (state_ == state::checking || state_ == state::live) {
    out.push_back(close{reason});
    end_session(std::move(reason), "", now, out);
  }
  hurry(now, out);
}

void upstream::hurry(steady_time now, actions& out) {
  if (state_ == state::waiting || state_ == state::connecting) attempt(now, out);
}

void upstream::attempt(steady_time, actions& out) {
  state_ = state::connecting;
  ++attempts_;
  out.push_back(connect{});
}

void upstream::connected(const session_info& info, steady_time now, actions& out) {
  if (state_ != state::connecting) {
    if (state_ == state::idle) out.push_back(close{"stopping"});
    return;
  }
  state_ = state::checking;
  session_ = info;
  full_ = false;
  pooled_ = false;
  outside_asked_ = outside_said_ = false;
  last_heard_ = now;
  query(step::identity, by_itself(identity_sql), own_statements + 1, now, out);
}

void upstream::connect_failed(const connect_failure& failure, steady_time now, actions& out) {
  if (state_ != state::connecting) return;
  if (!failure.user.empty()) session_.user = failure.user;
  full_ = failure.full;
  unhealthy(failure.login_refused ? "login" : "connecting", failure.message, out);
  state_ = state::waiting;
  const auto& limits = failure.login_refused ? settings_.login : settings_.reconnect;
  retry_at_ = now + backoff_delay(limits, ++failures_, jitter_.next());
  log_failure("upstream attempt failed", now, out);
}

// Each new reason at once, one that lasts once a minute: an outage of a night must not fill the log, nor
// hide what it has turned into. Numbers (ports, backends) make no new reason.
void upstream::log_failure(const char* event, steady_time now, actions& out) {
  auto kind = event + reason_ + detail_;
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  const auto known = std::find_if(told_.begin(), told_.end(), [&](const told& t) { return t.kind == kind; });
  if (known != told_.end()) {
    if (now - known->at < tell_again) return;
    told_.erase(known);
  }
  if (told_.size() >= most_told) told_.erase(told_.begin());
  told_.push_back({std::move(kind), now});
  log_fields fields;
  fields.add("reason", reason_).add("attempts", failures_);
  if (!detail_.empty()) fields.add("detail", detail_);
  out.push_back(note{note::level::warning, event, std::move(fields)});
}

void upstream::query(step s, std::string sql, std::size_t statements, steady_time now, actions& out) {
  step_ = s;
  statements_ = statements;
  sent_at_ = now;
  out.push_back(send{std::move(sql)});
}

void upstream::result(const query_result& r, steady_time now, actions& out) {
  if (state_ != state::checking && state_ != state::live) return;
  heard(now);
  // A server that says nothing of a statement has not carried it out (S1), whatever it is ready for.
  if (r.ok && r.completed != statements_)
    return fail("answer",
                "the server answered " + std::to_string(statements_) + " statements " +
                    std::to_string(r.completed) + " times",
                now, out);
  next_step(std::exchange(step_, step::none), r, now, out);
}

void upstream::next_step(step done, const query_result& r, steady_time now, actions& out) {
  switch (done) {
    case step::none:
    case step::self_wait:
    case step::outside:
      return;
    case step::identity:
      return identity_came(r, now, out);
    case step::system_id: {
      const auto id = r.ok && !r.row.empty() ? r.row[0].value_or("") : "";
      out.push_back(identified{database_, id, slots_});
      // Behind a pooler nothing is set before it is known whose session this is.
      if (pooled_) return listen_to_itself(now, out);
      return query(step::settings, by_itself(settings_sql()), own_statements + 1, now, out);
    }
    case step::settings:
      if (!r.ok) return fail("settings", r.message, now, out);
      if (pooled_) return go_live(now, out);
      return listen_to_itself(now, out);
    case step::self_listen:
      if (!r.ok)
        return fail(r.sqlstate == "25006" || r.sqlstate == "55000" ? "recovery" : "listen", r.message, now,
                    out);
      return query(step::self_notify, next_check(), 1, now, out);
    case step::self_notify:
      return notify_came(r, now, out);
    case step::taking_back:
      return fail("pooler", unproven_, now, out);
    case step::probe:
      return probe_came(r, now, out);
    case step::listen:
      return listened(r, now, out);
    case step::say:
      out.push_back(said{std::move(to_say_.front()), r.ok, r.ok ? "" : r.sqlstate + " " + r.message});
      to_say_.pop_front();
      return idle_work(now, out);
  }
}

void upstream::listened(const query_result& r, steady_time now, actions& out) {
  std::vector<listen_plan::event> events;
  plan_.done({r.ok, r.row, r.sqlstate, r.message}, now, events);
  std::optional<std::string> replace;
  for (auto& e : events) {
    switch (e.what) {
      case listen_plan::event::kind::activated:
      case listen_plan::event::kind::refused: {
        recovering_.erase(e.channel);
        if (e.what == listen_plan::event::kind::activated)
          out.push_back(activated{std::move(e.channel)});
        else
          out.push_back(refused{std::move(e.channel), e.why, std::move(e.sqlstate), std::move(e.reason)});
        break;
      }
      case listen_plan::event::kind::retrying:
        out.push_back(
            note{note::level::warning, "LISTEN failed, will be retried",
                 log_fields().add("channel", e.channel).add("sqlstate", e.sqlstate).add("detail", e.reason)});
        break;
      case listen_plan::event::kind::released:
        break;
      case listen_plan::event::kind::replace_session:
        replace = e.sqlstate + " " + e.reason;
        break;
    }
  }
  if (replace) return fail("listen", *replace, now, out);
  judge_health(out);
  idle_work(now, out);
}

void upstream::idle_work(steady_time now, actions& out) {
  if (state_ != state::live || step_ != step::none) return;
  if (!to_say_.empty())
    return query(step::say,
                 "NOTIFY " + quote_identifier(fence_channel) + ", " + quote_literal(to_say_.front()), 1, now,
                 out);
  if (auto b = plan_.next(now)) query(step::listen, std::move(b->sql), b->statements, now, out);
}

// A session that must not serve: closed, told, replaced.
void upstream::fail(std::string reason, std::string detail, steady_time now, actions& out) {
  out.push_back(close{reason});
  end_session(std::move(reason), std::move(detail), now, out);
}

void upstream::session_lost(std::string reason, steady_time now, actions& out) {
  if (state_ != state::checking && state_ != state::live) return;
  end_session("connection_lost", std::move(reason), now, out);
}

void upstream::end_session(std::string reason, std::string detail, steady_time now, actions& out) {
  step_ = step::none;
  check_payload_.clear();
  to_say_.clear();
  if (live_since_) {
    plan_.collect_active(recovering_);
    plan_.session_lost();
    out.push_back(lost{reason});
    told_.clear();
    down_since_ = now;
  }
  unhealthy(std::move(reason), std::move(detail), out);
  state_ = state::waiting;
  retry_at_ = now + delay_after_session(now);
  log_failure("upstream lost", now, out);
  live_since_.reset();
}

// After a session that went live the attempts start over: at once, unless such sessions keep dying young.
millis upstream::delay_after_session(steady_time now) {
  if (!live_since_) return backoff_delay(settings_.reconnect, failures_++, jitter_.next());
  failures_ = 0;
  if (now - *live_since_ >= settings_.short_life) short_lives_ = 0;
  const backoff_limits gentle{settings_.reconnect.base, settings_.short_life_delay};
  return backoff_delay(gentle, short_lives_++, jitter_.next());
}

void upstream::unhealthy(std::string reason, std::string detail, actions& out) {
  const bool changed = healthy_ || reason_ != reason || detail_ != detail;
  healthy_ = false;
  reason_ = std::move(reason);
  detail_ = std::move(detail);
  if (changed) out.push_back(health{false, reason_, detail_});
}

void upstream::judge_health(actions& out) {
  if (state_ != state::live || healthy_) return;
  if (!recovering_.empty()) {
    if (reason_ != "relisten") unhealthy("relisten", "LISTENing again", out);
    return;
  }
  healthy_ = true;
  reason_.clear();
  detail_.clear();
  out.push_back(health{true, "", ""});
}

bool upstream::want(const std::string& channel, steady_time now, actions& out, std::uint64_t asker) {
  if (auto fault = counts_bytes_ ? length_fault(channel) : std::nullopt) {
    out.push_back(refused{channel, code::invalid_channel, "", std::move(*fault)});
    return false;
  }
  const bool active = plan_.want(channel, asker);
  if (!active) idle_work(now, out);
  return active;
}

void upstream::unwant(const std::string& channel, steady_time now, actions& out) {
  plan_.unwant(channel, now);
  if (recovering_.erase(channel) > 0) judge_health(out);
}

void upstream::say(std::string payload, steady_time now, actions& out) {
  if (state_ != state::live) return;
  to_say_.push_back(std::move(payload));
  idle_work(now, out);
}

void upstream::shrink(std::size_t most, steady_time now, actions& out) {
  plan_.shrink(most);
  idle_work(now, out);
}

std::optional<steady_time> upstream::command_deadline() const {
  const auto since = std::max(last_heard_, sent_at_);
  switch (step_) {
    case step::none:
      return std::nullopt;
    case step::identity:
    case step::system_id:
    case step::settings:
    case step::taking_back:
    case step::probe:
      return since + settings_.probe_timeout;
    case step::self_wait:
      return sent_at_ + settings_.probe_timeout;
    case step::outside:  // connecting takes its time
      return sent_at_ + (outside_said_ ? 1 : 3) * settings_.probe_timeout;
    case step::say:
    case step::self_notify:
      return since + settings_.lock_timeout + settings_.probe_timeout;
    case step::self_listen:
    case step::listen:
      return since + settings_.probe_interval + settings_.probe_timeout;
  }
  return std::nullopt;
}

void upstream::tick(steady_time now, bool quiet, actions& out) {
  if (state_ == state::waiting) {
    if (now >= retry_at_) attempt(now, out);
    return;
  }
  if (state_ != state::checking && state_ != state::live) return;
  if (const auto at = command_deadline(); quiet && at && now >= *at) {
    if (step_ == step::self_wait && pooled_)
      return refuse_pooler("this session's own NOTIFY did not come back", now, out);
    if (step_ == step::self_wait)
      return fail("deaf", "the session's own NOTIFY was committed and did not come back", now, out);
    if (step_ == step::outside)
      return refuse_pooler(outside_said_ ? hears_nothing : "no answer in time", now, out);
    if (step_ == step::taking_back) return fail("pooler", unproven_, now, out);
    return fail("silent", "no byte from the server in time", now, out);
  }
  idle_work(now, out);
  if (quiet && state_ == state::live && step_ == step::none && now >= last_heard_ + settings_.probe_interval)
    query(step::probe, probe_sql, 1, now, out);
}

std::optional<steady_time> upstream::deadline() const {
  switch (state_) {
    case state::idle:
    case state::connecting:
      return std::nullopt;
    case state::waiting:
      return retry_at_;
    case state::checking:
    case state::live:
      break;
  }
  if (const auto at = command_deadline()) return at;
  if (state_ != state::live) return std::nullopt;
  const auto probe = last_heard_ + settings_.probe_interval;
  const auto plan = plan_.deadline();
  return plan ? std::min(probe, *plan) : probe;
}

}  // namespace pgwake
