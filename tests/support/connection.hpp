#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;

namespace pgwake::test {

/// What PostgreSQL refused: its message, and its SQLSTATE where it gave one.
struct sql_error : std::runtime_error {
  sql_error(const std::string& message, std::string state)
      : std::runtime_error(message), sqlstate(std::move(state)) {}
  std::string sqlstate;
};

struct notification {
  std::string channel;
  std::string payload;
  int pid;
};

/// A blocking libpq connection. Notices are dropped, `application_name` is pgwake-test unless given.
class connection {
 public:
  explicit connection(const std::string& conninfo);
  connection(connection&& other) noexcept;
  connection& operator=(connection&& other) noexcept;
  ~connection();

  using row = std::vector<std::optional<std::string>>;
  /// One or more statements (one simple query). Throws sql_error.
  std::vector<row> exec(const std::string& sql);
  /// The first column of the first row; empty for null. Throws when there is no row.
  std::string value(const std::string& sql);
  /// pg_notify(channel, payload), byte for byte; an empty payload is none.
  void notify(std::string_view channel, std::string_view payload = {});
  /// Sends a statement and does not wait for it: for those that are meant to hang.
  void send(const std::string& sql);
  /// The next notification of this session.
  std::optional<notification> next_notification(std::chrono::milliseconds patience);
  std::string quoted(std::string_view name) const;  ///< as identifier

  int backend_pid() const;
  bool usable() const;
  pg_conn* raw() const { return conn_; }

 private:
  pg_conn* conn_ = nullptr;
};

}  // namespace pgwake::test
