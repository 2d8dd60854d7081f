#pragma once

#include <cstdint>
#include <optional>
#include <string>

// What is known of a PostgreSQL server, as plain values.
namespace pgwake::pg {

// One entry of a connection string's host list, all defaults filled in.
struct host_entry {
  std::string host;  // name, address, or a socket directory
  std::string hostaddr;
  std::string port;
  bool is_directory() const { return hostaddr.empty() && (host.starts_with('/') || host.starts_with('@')); }
};

struct query_failure {
  std::string sqlstate;  // empty: not the server's own error
  std::string message;   // PostgreSQL's or libpq's words, one line
  bool timed_out = false;
};

struct tls_state {
  bool in_use = false;
  std::string protocol, cipher;  // `TLSv1.3`
  // Of the server's certificate, where the TLS library tells; 0 or less: it has expired.
  std::optional<std::int64_t> expires_in_s;
};

}  // namespace pgwake::pg
