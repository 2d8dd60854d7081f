#include "common/pg/query.hpp"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>

#include "common/redact.hpp"

namespace pgwake::pg {

using boost::system::result;
using steady = std::chrono::steady_clock;

namespace {

std::string text(const char* words) { return words != nullptr ? words : ""; }

std::string one_line(std::string words) {
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return words;
}

handle begin_connect(const parameters& what) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : what) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  return handle(PQconnectStartParams(keywords.data(), values.data(), 1));
}

parameters to_one_host(const connect_settings& settings, const host_entry& host) {
  auto out = connect_parameters(settings);
  out.emplace_back("host", host.host);
  out.emplace_back("hostaddr", host.hostaddr);
  out.emplace_back("port", host.port);
  out.emplace_back("target_session_attrs", "any");
  return out;
}

void ignore(void*, const PGresult*) {}

bool wait_for(PGconn* conn, short events, steady_time until) {
  for (;;) {
    const auto left = std::chrono::ceil<millis>(until - steady::now()).count();
    if (left <= 0) return false;
    pollfd p{PQsocket(conn), events, 0};
    const int n = poll(&p, 1, static_cast<int>(left));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// Drives the connecting until `enough` says so, it is over, or the time is.
template <typename Enough>
PostgresPollingStatusType drive(PGconn* conn, steady_time until, Enough&& enough) {
  auto state = PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED && !enough()) {
    if (!wait_for(conn, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until)) break;
    state = PQconnectPoll(conn);
  }
  return state;
}

// Out of a verbose message, `... FATAL:  28P01: password authentication failed ... LOCATION: ...`: the
// SQLSTATE, which a failed connect does not tell otherwise; what is left is for people.
query_failure failed_connect(std::string message) {
  query_failure out;
  for (auto at = message.find(":  "); at != message.npos; at = message.find(":  ", at + 1)) {
    const auto state = message.substr(at + 3, 5);
    const bool is_state = state.size() == 5 && message.compare(at + 8, 2, ": ") == 0 &&
                          std::all_of(state.begin(), state.end(), [](unsigned char c) {
                            return std::isdigit(c) != 0 || std::isupper(c) != 0;
                          });
    if (!is_state) continue;
    out.sqlstate = state;
    message.erase(at + 2, 8);
    break;
  }
  if (const auto at = message.find("\nLOCATION:"); at != message.npos)
    message.erase(at, message.find('\n', at + 1) - at);
  out.message = one_line(std::move(message));
  return out;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

// libpq has the TLS library loaded; its headers are no dependency of ours, so its few calls are looked up.
template <typename Function>
Function loaded(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

std::optional<std::int64_t> certificate_expires_in(PGconn* conn) {
  void* ssl = PQsslStruct(conn, "OpenSSL");
  const auto certificate_of = loaded<void* (*)(const void*)>("SSL_get1_peer_certificate");
  const auto end_of = loaded<const void* (*)(const void*)>("X509_get0_notAfter");
  const auto until = loaded<int (*)(int*, int*, const void*, const void*)>("ASN1_TIME_diff");
  const auto release = loaded<void (*)(void*)>("X509_free");
  if (ssl == nullptr || certificate_of == nullptr || end_of == nullptr || until == nullptr ||
      release == nullptr)
    return std::nullopt;
  void* certificate = certificate_of(ssl);
  if (certificate == nullptr) return std::nullopt;
  int days = 0;
  int seconds = 0;
  const bool told = until(&days, &seconds, nullptr, end_of(certificate)) == 1;  // from now
  release(certificate);
  if (!told) return std::nullopt;
  return std::int64_t{86'400} * days + seconds;
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

target target_of(const connect_settings& settings) {
  target out;
  out.fault = conninfo_fault(settings.conninfo);
  if (!out.fault.empty()) return out;
  // libpq fills in services, environment and defaults only on the way to a connection. A value that it
  // refuses just before it connects leaves all that to be read, and nothing is sent anywhere.
  auto what = connect_parameters(settings);
  what.emplace_back("channel_binding", "not-a-value");
  const auto conn = begin_connect(what);
  const options_handle options(conn ? PQconninfo(conn.get()) : nullptr);
  std::string hosts;
  std::string addresses;
  std::string ports;
  for (auto* o = options.get(); o != nullptr && o->keyword != nullptr; ++o) {
    const std::string_view keyword = o->keyword;
    if (keyword == "host") hosts = text(o->val);
    if (keyword == "hostaddr") addresses = text(o->val);
    if (keyword == "port") ports = text(o->val);
    if (keyword == "sslmode") out.sslmode = text(o->val);
    if (keyword == "sslrootcert") out.sslrootcert = text(o->val);
  }
  if (conn) {
    out.user = text(PQuser(conn.get()));
    out.database = text(PQdb(conn.get()));
    const auto words = one_line(text(PQerrorMessage(conn.get())));
    if (words.find("channel_binding") == words.npos) out.fault = hide_secrets_in(words, settings.conninfo);
  }
  const auto names = split(hosts);
  const auto numbers = split(addresses);
  const auto each_port = split(ports);
  for (std::size_t i = 0; i < std::max(names.size(), numbers.size()); ++i) {
    host_entry one;
    if (i < names.size()) one.host = names[i];
    if (i < numbers.size()) one.hostaddr = numbers[i];
    one.port = each_port.size() == 1 ? each_port[0] : i < each_port.size() ? each_port[i] : "";
    if (one.port.empty()) one.port = "5432";
    if (one.host.empty() && one.hostaddr.empty() && conn) one.host = text(PQhost(conn.get()));
    out.hosts.push_back(std::move(one));
  }
  return out;
}

result<blocking_session, query_failure> blocking_session::open(const connect_settings& settings,
                                                               const host_entry& host, millis patience) {
  const auto until = steady::now() + patience;
  auto conn = begin_connect(to_one_host(settings, host));
  if (!conn) return query_failure{"", "out of memory"};
  PQsetErrorVerbosity(conn.get(), PQERRORS_VERBOSE);
  PQsetNoticeReceiver(conn.get(), ignore, nullptr);
  if (PQstatus(conn.get()) == CONNECTION_BAD) return failed_connect(text(PQerrorMessage(conn.get())));
  const auto state = drive(conn.get(), until, [] { return false; });
  if (state == PGRES_POLLING_FAILED) return failed_connect(text(PQerrorMessage(conn.get())));
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
  auto what = to_one_host(settings, host);
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
