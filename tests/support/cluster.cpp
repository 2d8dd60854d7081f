#include "support/cluster.hpp"

#include <fcntl.h>
#include <libpq-fe.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "support/certificates.hpp"
#include "support/eventually.hpp"

namespace pgwake::test {
namespace {

constexpr const char* default_settings = R"(
fsync = off
full_page_writes = off
synchronous_commit = off
autovacuum = off
shared_buffers = 32MB
password_encryption = 'scram-sha-256'
max_connections = 100
listen_addresses = '127.0.0.1'
wal_level = replica
max_wal_senders = 4
hot_standby = on
wal_receiver_status_interval = 1s
log_line_prefix = '%m [%p] %a '
)";

// Which PostgreSQL: the folder of initdb and postgres, of another version than the host's.
const char* chosen_programs() { return std::getenv("PGWAKE_TEST_POSTGRES"); }
std::string programs() { return chosen_programs() != nullptr ? chosen_programs() : PGWAKE_TEST_PG_BINDIR; }

// An exclusive lock for a scope; other test binaries wait.
class file_lock {
 public:
  explicit file_lock(const std::string& path) : fd_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    if (fd_ < 0 || flock(fd_, LOCK_EX) != 0) throw_errno("lock " + path);
  }
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;
  ~file_lock() { close(fd_); }

 private:
  int fd_;
};

}  // namespace

cluster::cluster(cluster_options options) : port_(random_port()) {
  give_to_server(home_.path());
  fill_data_directory(options.own_system_id);
  configure(options);
  start();
}

cluster::cluster(from_base_backup source, cluster_options options) : port_(random_port()) {
  give_to_server(home_.path());
  if (!std::filesystem::exists(programs() + "/pg_basebackup"))
    copy_while_it_runs(source.primary);
  else
    run_ok(command("pg_basebackup", {"-d", source.primary.unix_conninfo("", "postgres"), "-D",
                                     data_directory(), "-R", "-X", "stream", "-c", "fast", "--no-sync"}));
  configure(options);
  start();
}

// What pg_basebackup does, for servers that come without it.
void cluster::copy_while_it_runs(const cluster& primary) {
  auto session = primary.connect();
  const bool old = std::stoi(session.value("SHOW server_version_num")) < 150000;
  session.exec(old ? "SELECT pg_start_backup('copy', true, false)" : "SELECT pg_backup_start('copy', true)");
  run({.argv = {"cp", "-a", primary.data_directory(), data_directory()}});  // files may go meanwhile
  const auto label = session.value(old ? "SELECT labelfile FROM pg_stop_backup(false, false)"
                                       : "SELECT labelfile FROM pg_backup_stop(false)");
  std::filesystem::remove(data_directory() + "/postmaster.pid");
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file(data_directory() + name, text, 0600);
    give_to_server(data_directory() + name);
  };
  write("/backup_label", label);
  write("/standby.signal", "");
  write("/postgresql.auto.conf", "primary_conninfo = 'host=" + primary.directory() +
                                     " port=" + std::to_string(primary.port()) + " user=postgres'\n");
}

cluster::~cluster() {
  if (running()) stop(stop_mode::immediate);
}

cluster& cluster::shared() {
  static cluster instance;
  return instance;
}

process_options cluster::command(const std::string& tool, std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), programs() + "/" + tool);
  return {.argv = std::move(arguments), .account = server_account(), .directory = home_.path()};
}

void cluster::fill_data_directory(bool fresh) {
  const auto initdb = [&] {
    run_ok(command("initdb", {"-D", data_directory(), "-U", "postgres", "--auth=trust", "--encoding=UTF8",
                              "--locale=C", "--no-sync"}));
  };
  if (fresh) return initdb();
  std::string cache = std::string(PGWAKE_TEST_CACHE_DIR) + "/pg-template";
  if (chosen_programs() != nullptr) {
    std::string which = chosen_programs();
    std::replace(which.begin(), which.end(), '/', '-');
    cache += which;
  }
  const file_lock lock(cache + ".lock");
  if (!std::filesystem::exists(cache)) {
    initdb();
    run_ok({.argv = {"cp", "-a", data_directory(), cache + ".new"}});
    std::filesystem::rename(cache + ".new", cache);
  } else {
    run_ok({.argv = {"cp", "-a", cache, data_directory()}});  // keeps the owner, where we are root
  }
}

void cluster::configure(const cluster_options& options) {
  std::string text = std::string(default_settings) + "unix_socket_directories = '" + home_.path() +
                     "'\nport = " + std::to_string(port_) + "\n";
  if (options.tls) {
    make_certificates(home_.path());
    text += "ssl = on\nssl_cert_file = '" + (home_ / "server.crt") + "'\nssl_key_file = '" +
            (home_ / "server.key") + "'\n";
  }
  for (const auto& [name, value] : options.settings) text += name + " = '" + value + "'\n";
  const std::string path = data_directory() + "/postgresql.conf";
  write_file(path, text, 0600);
  give_to_server(path);
}

void cluster::start() {
  auto job = command("postgres", {"-D", data_directory()});
  job.death_signal = SIGQUIT;  // at once, but with its children and shared memory cleaned up
  server_.emplace(std::move(job));
  const std::string target = unix_conninfo() + " connect_timeout=2";
  const bool up = eventually(30s, [&] { return !server_->running() || PQping(target.c_str()) == PQPING_OK; });
  if (!up || !server_->running()) throw std::runtime_error("PostgreSQL does not start:\n" + log());
}

void cluster::stop(stop_mode mode) {
  if (!server_) return;
  const std::lock_guard lock(mutex_);
  connections_.clear();
  server_->signal(mode == stop_mode::fast ? SIGINT : SIGQUIT);
  if (!server_->wait(30s)) throw std::runtime_error("PostgreSQL does not stop:\n" + log());
}

void cluster::restart(stop_mode mode) {
  stop(mode);
  start();
}

std::string cluster::conninfo(std::string_view database, std::string_view user) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " dbname='" + std::string(database) + "' user='" +
         std::string(user) + "'";
}

std::string cluster::unix_conninfo(std::string_view database, std::string_view user) const {
  return "host=" + home_.path() + " port=" + std::to_string(port_) + " dbname='" + std::string(database) +
         "' user='" + std::string(user) + "'";
}

connection cluster::connect(std::string_view database, std::string_view user) const {
  return connection(unix_conninfo(database, user));
}

connection& cluster::cached(const std::string& database) {
  const auto found = connections_.find(database);
  if (found != connections_.end()) {
    if (found->second.usable()) return found->second;
    connections_.erase(found);
  }
  return connections_.emplace(database, connect(database)).first->second;
}

std::vector<connection::row> cluster::exec(const std::string& sql, const std::string& database) {
  const std::lock_guard lock(mutex_);
  return cached(database).exec(sql);
}

std::string cluster::value(const std::string& sql, const std::string& database) {
  const std::lock_guard lock(mutex_);
  return cached(database).value(sql);
}

void cluster::notify(std::string_view channel, std::string_view payload, const std::string& database) {
  const std::lock_guard lock(mutex_);
  cached(database).notify(channel, payload);
}

void cluster::create_database(const std::string& name, const std::string& encoding) {
  exec("CREATE DATABASE \"" + name + "\" TEMPLATE template0 ENCODING '" + encoding +
       "' LC_COLLATE 'C' LC_CTYPE 'C'");
}

std::string cluster::new_database(const std::string& encoding) {
  const std::string name = "test" + std::to_string(++databases_made_);
  create_database(name, encoding);
  return name;
}

std::vector<int> cluster::backend_pids(const std::string& pattern) {
  std::vector<int> pids;
  for (const auto& row : exec("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                              "AND application_name LIKE '" +
                              pattern + "' ORDER BY pid"))
    pids.push_back(std::stoi(row[0].value()));
  return pids;
}

int cluster::census(const std::string& pattern) { return static_cast<int>(backend_pids(pattern).size()); }

bool cluster::terminate(int pid) {
  return value("SELECT pg_terminate_backend(" + std::to_string(pid) + ")") == "t";
}

int cluster::terminate_all(const std::string& pattern) {
  int ended = 0;
  for (const int pid : backend_pids(pattern)) ended += terminate(pid);
  return ended;
}

void cluster::set(const std::string& name, const std::string& value) {
  exec(value.empty() ? "ALTER SYSTEM RESET " + name : "ALTER SYSTEM SET " + name + " = '" + value + "'");
  reload();
}

// The server takes its time: until a new session has what was changed, all of them have it.
void cluster::reload() {
  const auto before = value("SELECT clock_timestamp()");
  exec("SELECT pg_reload_conf()");
  if (!eventually(10s,
                  [&] { return connect().value("SELECT pg_conf_load_time() > '" + before + "'") == "t"; }))
    throw std::runtime_error("the server does not load its settings again");
}

void cluster::hold_commits() {
  set("synchronous_standby_names", "nobody");
  const bool held = eventually(10s, [&] {  // the checkpointer, which tells the others, takes its time, too
    auto probe = connect();
    const auto pid = std::to_string(probe.backend_pid());
    const auto asks = [&](const char* what) {
      return value("SELECT " + std::string(what) + " FROM pg_stat_activity WHERE pid = " + pid) == "t";
    };
    probe.send("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, '', '')");
    eventually(10s, [&] { return asks("state = 'idle' AND query LIKE 'SET %' OR wait_event = 'SyncRep'"); });
    return asks("coalesce(wait_event, '') = 'SyncRep'") &&
           value("SELECT pg_cancel_backend(" + pid + ")") == "t" &&
           eventually(10s, [&] { return asks("state = 'idle'"); });
  });
  if (!held) throw std::runtime_error("commits do not wait for a standby");
}

void cluster::set_hba(const std::string& lines) {
  const std::string path = data_directory() + "/pg_hba.conf";
  write_file(path, lines, 0600);
  give_to_server(path);
  reload();
}

std::unique_ptr<cluster> cluster::make_standby(cluster_options options) {
  return std::unique_ptr<cluster>(new cluster(from_base_backup{*this}, std::move(options)));
}

void cluster::promote() { exec("SELECT pg_promote()"); }

}  // namespace pgwake::test
