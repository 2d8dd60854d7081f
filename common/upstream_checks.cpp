#include <charconv>
#include <utility>

#include "common/channel.hpp"
#include "common/upstream.hpp"

// What a new session is asked before it is believed, and a live one now and then.
namespace pgwake {
namespace {

template <typename Number>
Number number(const std::optional<std::string>& text) {
  Number n = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), n);
  return n;
}

bool is_true(const std::optional<std::string>& text) { return text == "t"; }

// Readable by an ordinary role, but a host may have taken that away: its failure is no fault.
constexpr const char* system_id_sql = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

}  // namespace

void upstream::identity_came(const query_result& r, steady_time now, actions& out) {
  if (!r.ok || r.row.size() < 5) return fail("check", r.message, now, out);
  pid_ = number<int>(r.row[0]);
  pooled_ = pid_ != session_.backend_pid;
  if (pooled_ && !settings_.allow_session_pooler)
    return fail("pooler",
                "a connection pooler answers here (backend " + std::to_string(pid_) + ", libpq was told " +
                    std::to_string(session_.backend_pid) +
                    "): LISTEN needs a direct connection; point `database` at PostgreSQL itself, or set "
                    "allow_session_pooler if the pooler is in session mode",
                now, out);
  if (is_true(r.row[1]))
    return fail("recovery", "the server is a standby: LISTEN works on a primary only", now, out);
  database_ = r.row[2].value_or("");
  ascii_ = r.row[3] == "SQL_ASCII";
  counts_bytes_ = ascii_ || r.row[3] == "UTF8";
  plan_.compare_names(!counts_bytes_);
  if (counts_bytes_) refuse_too_long(out);
  queue_usage_ = number<double>(r.row[4]);
  slots_ = 0;
  if (r.row.size() >= 8) {
    const auto most = number<std::uint32_t>(r.row[5]);
    const auto reserved = number<std::uint32_t>(r.row[6]) + number<std::uint32_t>(r.row[7]);
    slots_ = most > reserved ? most - reserved : 0;
  }
  query(step::system_id, by_itself(system_id_sql), own_statements + 1, now, out);
}

// They were asked for before it was known how this database counts.
void upstream::refuse_too_long(actions& out) {
  for (auto& channel : plan_.drop_too_long()) {
    recovering_.erase(channel);
    auto fault = length_fault(channel);
    out.push_back(refused{std::move(channel), code::invalid_channel, "", fault.value_or("")});
  }
}

// In one query these are one transaction, without BEGIN, which an error would leave open. A deferrable one
// could wait for hours before its first row.
std::string upstream::by_itself(const std::string& select) {
  return "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY, NOT DEFERRABLE;"
         "SET LOCAL statement_timeout = 0;SET LOCAL exit_on_error = off;SET LOCAL search_path = pg_catalog;" +
         select;
}

// set_config over the settings that exist here: a SET of one that this version lacks would fail the whole
// batch. Whatever an ordinary role may set and this session relies on, however role and database have it.
std::string upstream::settings_sql() const {
  std::string values =
      "('statement_timeout','0'),('idle_session_timeout','0'),('transaction_timeout','0'),('idle_in_transaction_session_timeout','0'),('default_transaction_read_only','off'),('default_transaction_isolation','read "
      "committed'),('default_transaction_deferrable','off'),('search_path','pg_catalog'),('standard_conforming_strings','on'),('exit_on_error','off'),"
      // Nothing here is read from a notice.
      "('client_min_messages','error'),"
      // The self-NOTIFY needs no disk and must not wait for a standby: while it waited, nobody could NOTIFY.
      "('synchronous_commit','off'),('tcp_keepalives_idle','30'),('tcp_keepalives_interval','10'),('tcp_keepalives_count','3'),('tcp_user_timeout','15000'),('client_connection_check_interval','10000'),"
      "('lock_timeout','" +
      std::to_string(settings_.lock_timeout.count()) + "')";
  // In SQL_ASCII the server knows no encoding, and bytes that are not UTF-8 would end a UTF8 session.
  if (ascii_) values += ",('client_encoding','SQL_ASCII')";
  return "SELECT pg_catalog.count(pg_catalog.set_config(s.name, w.value, false)) FROM (VALUES " + values +
         ") AS w(name, value) JOIN pg_catalog.pg_settings s ON s.name = w.name";
}

void upstream::notify_came(const query_result& r, steady_time now, actions& out) {
  if (!r.ok) {
    // It waits behind another transaction's commit (or a full queue): that proves nothing about this session.
    if (pooled_) return refuse_pooler(r.sqlstate + " " + r.message, now, out);
    out.push_back(note{note::level::warning, "self check not possible",
                       log_fields().add("sqlstate", r.sqlstate).add("detail", r.message)});
    return go_live(now, out);
  }
  if (check_returned_) return check_came(now, out);
  step_ = step::self_wait;
  sent_at_ = now;
}

std::string upstream::next_check() {
  check_returned_ = false;
  const auto secret = settings_.secret ? settings_.secret()
                                       : static_cast<std::uint64_t>(jitter_.next() * 9'007'199'254'740'992.0);
  check_payload_ = settings_.self_check + ":" + std::to_string(secret);
  return "NOTIFY " + quote_identifier(fence_channel) + ", " + quote_literal(check_payload_);
}

// Its own NOTIFY comes back even through a pool in transaction mode, within the transaction. Another
// session's comes only if this one is kept while it is idle.
void upstream::check_came(steady_time now, actions& out) {
  if (!pooled_) return go_live(now, out);
  if (std::exchange(outside_asked_, true))
    return query(step::settings, by_itself(settings_sql()), own_statements + 1, now, out);
  auto sql = next_check();
  step_ = step::outside;
  sent_at_ = now;
  out.push_back(notify_outside{check_payload_, std::move(sql)});
}

void upstream::notified_outside(std::string_view payload, const std::string& trouble, steady_time now,
                                actions& out) {
  if (state_ != state::checking || step_ != step::outside || payload != check_payload_) return;
  if (!trouble.empty()) return refuse_pooler(trouble, now, out);
  outside_said_ = true;
  sent_at_ = now;
}

// It may be deaf, so it does not count; and the pooler may give this session to the next one who comes, so
// what was done to it is taken back first.
void upstream::refuse_pooler(const std::string& why, steady_time now, actions& out) {
  unproven_ = "a pooler that is not proven to be in session mode: " + why +
              "; give `database` PostgreSQL itself, or a pool in session mode with a second session to spare";
  query(step::taking_back, "UNLISTEN " + quote_identifier(fence_channel), 1, now, out);
}

void upstream::listen_to_itself(steady_time now, actions& out) {
  query(step::self_listen, "LISTEN " + quote_identifier(fence_channel), 1, now, out);
}

bool upstream::own_check(std::string_view payload, steady_time now, actions& out) {
  if (check_payload_.empty() || payload != check_payload_) {
    return !settings_.self_check.empty() && payload.starts_with(settings_.self_check) &&
           payload.substr(settings_.self_check.size()).starts_with(':');
  }
  check_returned_ = true;
  if (state_ == state::checking && (step_ == step::self_wait || step_ == step::outside)) {
    step_ = step::none;
    check_came(now, out);
  }
  return true;
}

void upstream::go_live(steady_time now, actions& out) {
  state_ = state::live;
  live_since_ = now;
  ++sessions_;
  log_fields fields;
  fields.add("server", session_.server).add("backend", pid_);
  if (pooled_) fields.add("pooler", "session");
  if (down_since_ && !told_.empty())
    fields.add("outage_ms", std::chrono::duration_cast<millis>(now - *down_since_).count());
  down_since_.reset();
  told_.clear();
  out.push_back(note{note::level::info, "upstream connected", std::move(fields)});
  idle_work(now, out);
  judge_health(out);
}

void upstream::probe_came(const query_result& r, steady_time now, actions& out) {
  if (!r.ok || r.row.size() < 3) return fail("probe", r.message, now, out);
  const auto pid = number<int>(r.row[0]);
  const auto count = number<std::size_t>(r.row[1]);
  queue_usage_ = number<double>(r.row[2]);
  const auto expected = plan_.active_count() + 1;  // and the fence channel
  if (pid != pid_)
    return fail("probe",
                "another backend answers: " + std::to_string(pid) + " instead of " + std::to_string(pid_),
                now, out);
  if (count != expected)
    return fail("probe",
                "the session listens to " + std::to_string(count) + " channels instead of " +
                    std::to_string(expected),
                now, out);
  idle_work(now, out);
}

}  // namespace pgwake
