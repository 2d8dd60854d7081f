#include "common/pg/query.hpp"

#include <poll.h>

#include <chrono>
#include <utility>

#include "common/pg/certificate.hpp"
#include "common/pg/opening.hpp"

namespace pgwake::pg {

using boost::system::result;
using steady = std::chrono::steady_clock;

namespace {

std::string text(const char* words) { return words != nullptr ? words : ""; }

parameters wherever_it_leads(const connect_settings& settings, const host_entry& host) {
  auto out = to_one_host(settings, target_of(settings), host);
  out.emplace_back("target_session_attrs", "any");
  return out;
}

void ignore(void*, const PGresult*) {}

query_failure failed_connect(PGconn* conn) {
  auto words = words_of_failure(text(PQerrorMessage(conn)));
  return {std::move(words.sqlstate), std::move(words.message)};
}

tls_state tls_of(PGconn* conn) {
  tls_state out;
  out.in_use = PQsslInUse(conn) == 1;
  if (!out.in_use) return out;
  out.protocol = text(PQsslAttribute(conn, "protocol"));
  out.cipher = text(PQsslAttribute(conn, "cipher"));
  out.expires_in_s = certificate_expires_in(conn);
  return out;
}

}  // namespace

result<blocking_session, query_failure> blocking_session::open(const connect_settings& settings,
                                                               const host_entry& host, millis patience) {
  const auto until = steady::now() + patience;
  auto conn = begin_connect(wherever_it_leads(settings, host));
  if (!conn) return query_failure{"", "out of memory"};
  PQsetErrorVerbosity(conn.get(), PQERRORS_VERBOSE);
  PQsetNoticeReceiver(conn.get(), ignore, nullptr);
  if (PQstatus(conn.get()) == CONNECTION_BAD) return failed_connect(conn.get());
  const auto state = drive(conn.get(), until, [] { return false; });
  if (state == PGRES_POLLING_FAILED) return failed_connect(conn.get());
  if (state != PGRES_POLLING_OK)
    return query_failure{"", "no answer within " + std::to_string(patience.count()) + " ms", true};
  PQsetErrorVerbosity(conn.get(), PQERRORS_DEFAULT);
  return blocking_session(std::move(conn));
}

bool blocking_session::wait(short events, steady_time until) { return wait_for(conn_.get(), events, until); }

query_failure blocking_session::server_failure(const PGresult* result) const {
  const char* words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  return {text(PQresultErrorField(result, PG_DIAG_SQLSTATE)),
          one_line(words != nullptr ? words : text(PQresultErrorMessage(result)))};
}

result<blocking_session::rows, query_failure> blocking_session::query(const std::string& sql,
                                                                      millis patience) {
  const auto until = steady::now() + patience;
  if (PQsendQuery(conn_.get(), sql.c_str()) != 1)
    return query_failure{"", one_line(text(PQerrorMessage(conn_.get())))};
  std::optional<query_failure> failure;
  rows out;
  for (;;) {
    while (PQisBusy(conn_.get()) == 1) {
      if (!wait(POLLIN, until))
        return query_failure{"", "no answer within " + std::to_string(patience.count()) + " ms", true};
      if (PQconsumeInput(conn_.get()) != 1)
        return query_failure{"", one_line(text(PQerrorMessage(conn_.get())))};
    }
    const result_handle one(PQgetResult(conn_.get()));
    if (!one) break;
    const auto status = PQresultStatus(one.get());
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH)
      return query_failure{"", "the server answered with COPY, which nobody asked for"};
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
      failure = server_failure(one.get());
      continue;
    }
    out.clear();
    for (int r = 0; r < PQntuples(one.get()); ++r) {
      row cells;
      for (int c = 0; c < PQnfields(one.get()); ++c)
        cells.push_back(PQgetisnull(one.get(), r, c) == 1
                            ? std::nullopt
                            : std::optional<std::string>(PQgetvalue(one.get(), r, c)));
      out.push_back(std::move(cells));
    }
  }
  if (failure) return *failure;
  return out;
}

std::optional<blocking_session::notification> blocking_session::next_notification(millis patience) {
  const auto until = steady::now() + patience;
  for (;;) {
    if (const notify_handle n{PQnotifies(conn_.get())}) return notification{n->relname, n->extra, n->be_pid};
    if (!wait(POLLIN, until) || PQconsumeInput(conn_.get()) != 1) return std::nullopt;
  }
}

tls_state blocking_session::tls() const { return tls_of(conn_.get()); }

std::string blocking_session::quoted(std::string_view name) const {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

tls_state look_at_certificate(const connect_settings& settings, const host_entry& host, millis patience) {
  auto what = wherever_it_leads(settings, host);
  what.emplace_back("sslmode", "require");
  what.emplace_back("sslrootcert", "/nonexistent");  // with one, `require` would verify
  const auto conn = begin_connect(what);
  if (!conn || PQstatus(conn.get()) == CONNECTION_BAD) return {};
  // Once TLS is up libpq is about to send the startup packet; it is never given the chance.
  const auto secured = [&] { return PQstatus(conn.get()) == CONNECTION_MADE && PQsslInUse(conn.get()) == 1; };
  drive(conn.get(), steady::now() + patience, secured);
  return secured() ? tls_of(conn.get()) : tls_state{};
}

}  // namespace pgwake::pg
