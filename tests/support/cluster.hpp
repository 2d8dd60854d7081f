#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/connection.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace pgwake::test {

struct cluster_options {
  std::vector<std::pair<std::string, std::string>> settings{};  ///< postgresql.conf, over the defaults
  bool tls = false;                                             ///< ssl=on with a private CA, see ca_file()
  /// Clusters are copies of one cached initdb and share its system identifier; this makes one of its own.
  bool own_system_id = false;
};

enum class stop_mode { fast, immediate };

/// A real PostgreSQL of its own: data directory, port on 127.0.0.1 and Unix socket are private and vanish
/// with it (or with this process). $PGWAKE_TEST_POSTGRES names the folder of its programs, where another
/// version than the host's is meant. UTF8, locale C, everyone trusted, superuser `postgres`, durability off.
/// Methods may be called from any thread, except start, stop and restart: those from the thread that made it.
class cluster {
 public:
  explicit cluster(cluster_options options = {});
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  /// One per test process, made at first use.
  static cluster& shared();

  void start();
  void stop(stop_mode mode = stop_mode::fast);
  void restart(stop_mode mode = stop_mode::fast);
  bool running() { return server_ && server_->running(); }
  process& server() { return *server_; }  ///< the postmaster

  int port() const { return port_; }
  const std::string& directory() const { return home_.path(); }  ///< the Unix socket's, too
  std::string data_directory() const { return home_ / "data"; }
  std::string ca_file() const { return home_ / "ca.crt"; }

  /// "host=127.0.0.1 port=... dbname=... user=..."
  std::string conninfo(std::string_view database = "postgres", std::string_view user = "postgres") const;
  std::string unix_conninfo(std::string_view database = "postgres", std::string_view user = "postgres") const;
  connection connect(std::string_view database = "postgres", std::string_view user = "postgres") const;

  /// On a connection as superuser that is kept for further use.
  std::vector<connection::row> exec(const std::string& sql, const std::string& database = "postgres");
  std::string value(const std::string& sql, const std::string& database = "postgres");
  void notify(std::string_view channel, std::string_view payload = {},
              const std::string& database = "postgres");

  /// From template0, locale C: LATIN1, SQL_ASCII, EUC_TW, WIN1252, ...
  void create_database(const std::string& name, const std::string& encoding = "UTF8");
  /// A fresh database with a name of its own, so that cases do not hear each other.
  std::string new_database(const std::string& encoding = "UTF8");

  /// Client backends whose application_name matches the LIKE pattern (any database).
  int census(const std::string& pattern = "pgwaked@%");
  std::vector<int> backend_pids(const std::string& pattern = "pgwaked@%");
  /// pg_terminate_backend. False when there is no such backend.
  bool terminate(int pid);
  /// Terminates all of census(pattern); how many.
  int terminate_all(const std::string& pattern = "pgwaked@%");

  /// ALTER SYSTEM SET, and reload. An empty value resets it. New sessions have it when this returns.
  void set(const std::string& name, const std::string& value);
  /// From now on a commit waits for a standby that does not exist, unless its synchronous_commit is off;
  /// until synchronous_standby_names is reset.
  void hold_commits();
  /// Replaces pg_hba.conf and reloads. Keep a line for the superuser on the Unix socket: exec() uses it.
  void set_hba(const std::string& lines);

  /// A streaming replica of it, started.
  std::unique_ptr<cluster> make_standby(cluster_options options = {});
  void promote();

  /// The server's log since the last start.
  std::string log() const { return server_ ? server_->err() : std::string(); }

 private:
  void reload();
  struct from_base_backup {
    const cluster& primary;
  };
  cluster(from_base_backup source, cluster_options options);
  void copy_while_it_runs(const cluster& primary);
  void configure(const cluster_options& options);
  process_options command(const std::string& tool, std::vector<std::string> arguments) const;
  void fill_data_directory(bool fresh);
  connection& cached(const std::string& database);

  temp_dir home_;
  int port_;
  std::optional<process> server_;
  std::mutex mutex_;
  std::map<std::string, connection> connections_;
  int databases_made_ = 0;
};

}  // namespace pgwake::test
