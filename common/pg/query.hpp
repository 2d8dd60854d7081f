#pragma once

#include <boost/system/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/pg/conninfo.hpp"
#include "common/pg/handle.hpp"
#include "common/pg/target.hpp"
#include "common/server_facts.hpp"
#include "common/time.hpp"

// A short-lived blocking connection, for commands that look at a server. Never used by the daemon
// or the client.
namespace pgwake::pg {

class blocking_session {
 public:
  // To one host of the target, whatever role it has there; verification of certificates as the settings say.
  static boost::system::result<blocking_session, query_failure> open(const connect_settings& settings,
                                                                     const host_entry& host, millis patience);

  using row = std::vector<std::optional<std::string>>;
  using rows = std::vector<row>;
  // A simple query; the last statement's rows. After a timeout the session is of no more use.
  boost::system::result<rows, query_failure> query(const std::string& sql, millis patience);

  struct notification {
    std::string channel, payload;
    int pid;
  };
  std::optional<notification> next_notification(millis patience);

  int backend_pid() const { return PQbackendPID(conn_.get()); }  // as libpq was told; a pooler makes it up
  int server_version() const { return PQserverVersion(conn_.get()); }
  tls_state tls() const;
  std::string quoted(std::string_view name) const;  // as an identifier

 private:
  explicit blocking_session(handle conn) : conn_(std::move(conn)) {}
  bool wait(short events, steady_time until);
  query_failure server_failure(const PGresult* result) const;

  handle conn_;
};

// Looks at a server's certificate without trusting it: TLS is begun and broken off before anything is said.
tls_state look_at_certificate(const connect_settings& settings, const host_entry& host, millis patience);

}  // namespace pgwake::pg
