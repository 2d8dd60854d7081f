#include "support/connection.hpp"

#include <libpq-fe.h>
#include <poll.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "support/eventually.hpp"

extern char** environ;

namespace pgwake::test {
namespace {

// PGSERVICE, PGHOSTADDR, PGWAKE_SOCKET and their like steer libpq and the library, here and in every child.
// What is set up here comes from the tests alone.
const bool environment_cleared = [] {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    if (name.starts_with("PG") && name != "PGWAKED" && !name.starts_with("PGWAKE_TEST_"))
      names.emplace_back(name);
  }
  for (const auto& name : names) unsetenv(name.c_str());
  return true;
}();

struct clear_result {
  void operator()(PGresult* result) const { PQclear(result); }
};
using result_ptr = std::unique_ptr<PGresult, clear_result>;

[[noreturn]] void throw_result(const PGresult* result, PGconn* conn) {
  const char* state = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* text = result == nullptr ? PQerrorMessage(conn) : PQresultErrorMessage(result);
  throw sql_error(text, state == nullptr ? "" : state);
}

bool good(const PGresult* result) {
  const auto status = PQresultStatus(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

}  // namespace

connection::connection(const std::string& conninfo) {
  // expand_dbname: the string may be a URI or key=value; the name given here yields to one in it.
  const char* const keys[] = {"application_name", "connect_timeout", "dbname", nullptr};
  const char* const values[] = {"pgwake-test", "10", conninfo.c_str(), nullptr};
  conn_ = PQconnectdbParams(keys, values, 1);
  if (PQstatus(conn_) != CONNECTION_OK) {
    const std::string message = PQerrorMessage(conn_);
    PQfinish(conn_);
    throw sql_error(message, "");
  }
  // Tests are written in UTF-8; a SQL_ASCII database takes bytes as they are.
  const auto is = [&](const char* setting, std::string_view value) {
    const char* now = PQparameterStatus(conn_, setting);
    return now != nullptr && now == value;
  };
  if (!is("server_encoding", "SQL_ASCII") && !is("client_encoding", "UTF8"))
    PQsetClientEncoding(conn_, "UTF8");
  PQsetNoticeProcessor(
      conn_, [](void*, const char*) {}, nullptr);
}

connection::connection(connection&& other) noexcept : conn_(std::exchange(other.conn_, nullptr)) {}
connection& connection::operator=(connection&& other) noexcept {
  std::swap(conn_, other.conn_);
  return *this;
}
connection::~connection() {
  if (conn_ != nullptr) PQfinish(conn_);
}

std::vector<connection::row> connection::exec(const std::string& sql) {
  const result_ptr result(PQexec(conn_, sql.c_str()));
  if (!good(result.get())) throw_result(result.get(), conn_);
  std::vector<row> rows(static_cast<std::size_t>(PQntuples(result.get())));
  for (int i = 0; i < PQntuples(result.get()); ++i) {
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      auto& cell = rows[static_cast<std::size_t>(i)].emplace_back();
      if (PQgetisnull(result.get(), i, column) == 0)
        cell.emplace(PQgetvalue(result.get(), i, column),
                     static_cast<std::size_t>(PQgetlength(result.get(), i, column)));
    }
  }
  return rows;
}

std::string connection::value(const std::string& sql) {
  const auto rows = exec(sql);
  if (rows.empty() || rows[0].empty()) throw std::runtime_error("no row from: " + sql);
  return rows[0][0].value_or("");
}

void connection::notify(std::string_view channel, std::string_view payload) {
  const std::string name(channel);
  const std::string text(payload);
  const char* const values[] = {name.c_str(), text.c_str()};
  const result_ptr result(
      PQexecParams(conn_, "SELECT pg_notify($1, $2)", 2, nullptr, values, nullptr, nullptr, 0));
  if (!good(result.get())) throw_result(result.get(), conn_);
}

void connection::send(const std::string& sql) {
  if (PQsendQuery(conn_, sql.c_str()) == 0) throw_result(nullptr, conn_);
}

std::optional<notification> connection::next_notification(milliseconds patience) {
  const auto deadline = clock::now() + patience;
  for (;;) {
    if (PGnotify* found = PQnotifies(conn_)) {
      notification result{found->relname, found->extra, found->be_pid};
      PQfreemem(found);
      return result;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now());
    if (left.count() < 0) return std::nullopt;
    pollfd wait{PQsocket(conn_), POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left.count())) > 0 && PQconsumeInput(conn_) == 0)
      throw_result(nullptr, conn_);
  }
}

std::string connection::quoted(std::string_view name) const {
  char* text = PQescapeIdentifier(conn_, name.data(), name.size());
  if (text == nullptr) throw_result(nullptr, conn_);
  std::string result = text;
  PQfreemem(text);
  return result;
}

int connection::backend_pid() const { return PQbackendPID(conn_); }
bool connection::usable() const { return conn_ != nullptr && PQstatus(conn_) == CONNECTION_OK; }

}  // namespace pgwake::test
