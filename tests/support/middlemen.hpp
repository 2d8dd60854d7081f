#pragma once

#include <string>
#include <string_view>

#include "support/cluster.hpp"

namespace pgwake::test {

/// What stands between hub and PostgreSQL, on a port of its own.
class middleman {
 public:
  int port() const { return port_; }
  std::string conninfo(std::string_view database = "postgres", std::string_view user = "postgres") const;
  process& daemon() { return process_; }

 protected:
  middleman(std::string_view name, int port, process_options options);

  int port_;
  process process_;
};

/// A folder that outlives the program that is started with what is in it.
struct with_home {
  temp_dir home_{};
};

/// Pgpool-II in front of one server, without pooling of queries that matter here: raw mode.
class pgpool : with_home, public middleman {
 public:
  explicit pgpool(const cluster& server);
  static bool installed();

 private:
  pgpool(const cluster& server, int port);
  process_options command(const cluster& server, int port) const;
};

/// HAProxy in TCP mode, as a primary is often reached; the second server takes over when the first does not
/// answer.
class haproxy : with_home, public middleman {
 public:
  explicit haproxy(const cluster& first, const cluster* second = nullptr);
  static bool installed();

 private:
  haproxy(const cluster& first, const cluster* second, int port);
  process_options command(const cluster& first, const cluster* second, int port) const;
};

}  // namespace pgwake::test
