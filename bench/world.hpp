#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/files.hpp"
#include "support/hub_daemon.hpp"
#include "support/process.hpp"

namespace pgwake::bench {

// The servers that are measured, each started when first asked for and gone with this object. The hub listens
// in the database `hub`, direct sessions in `direct`, a bare relay in `relay`: PostgreSQL signals the
// listeners of the notified database only, so none pays for the others' sessions.
class world {
 public:
  world();

  pgwake::test::cluster& postgres() { return postgres_; }
  std::string hub_database() const { return postgres_.unix_conninfo("hub"); }
  std::string direct_database() const { return postgres_.unix_conninfo("direct"); }
  std::string relay_database() const { return postgres_.unix_conninfo("relay"); }

  // A fresh hub on the database `hub`.
  std::unique_ptr<pgwake::test::hub_daemon> make_hub(std::vector<std::string> arguments = {}) const;

  // Unix socket of a Redis without persistence and without limits on a subscriber's backlog.
  std::string redis_socket();
  // Loopback port of a NATS server with its limits on a subscriber's backlog raised likewise.
  int nats_port();

 private:
  pgwake::test::cluster postgres_;
  pgwake::test::temp_dir home_;
  std::unique_ptr<pgwake::test::process> redis_;
  std::unique_ptr<pgwake::test::process> nats_;
  int nats_port_ = 0;
};

// Arguments that lift the hub's bounds on a worker's backlog, as done for the rivals.
std::vector<std::string> without_backlog_bounds();

// A connected, blocking stream socket on loopback. Throws.
int connect_tcp(int port);

}  // namespace pgwake::bench
