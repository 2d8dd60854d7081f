#pragma once

#include <string>
#include <string_view>

#include "support/cluster.hpp"

namespace pgwake::test {

/// A real PgBouncer in front of a cluster, on a port of its own; everyone is trusted.
class pgbouncer {
 public:
  /// `mode`: "session", "transaction" or "statement". `more`: further lines of its [pgbouncer] section.
  pgbouncer(const cluster& server, std::string_view mode, std::string_view more = {});

  int port() const { return port_; }
  std::string conninfo(std::string_view database = "postgres", std::string_view user = "postgres") const;
  process& daemon() { return process_; }

 private:
  process launch(const cluster& server, std::string_view mode, std::string_view more) const;

  temp_dir home_;
  int port_;
  process process_;
};

}  // namespace pgwake::test
