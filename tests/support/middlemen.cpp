#include "support/middlemen.hpp"

#include <libpq-fe.h>
#include <unistd.h>

#include <stdexcept>

#include "support/eventually.hpp"

namespace pgwake::test {

middleman::middleman(std::string_view name, int port, process_options options)
    : port_(port), process_(std::move(options)) {
  const std::string target = conninfo() + " connect_timeout=2";
  const bool up = eventually(20s, [&] { return !process_.running() || PQping(target.c_str()) == PQPING_OK; });
  if (!up || !process_.running())
    throw std::runtime_error(std::string(name) + " does not start:\n" + process_.out() + process_.err());
}

std::string middleman::conninfo(std::string_view database, std::string_view user) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " dbname='" + std::string(database) + "' user='" +
         std::string(user) + "'";
}

pgpool::pgpool(const cluster& server) : pgpool(server, random_port()) {}
pgpool::pgpool(const cluster& server, int port) : middleman("Pgpool-II", port, command(server, port)) {}

bool pgpool::installed() { return access("/usr/sbin/pgpool", X_OK) == 0; }

process_options pgpool::command(const cluster& server, int port) const {
  const auto& home = home_.path();
  give_to_server(home);
  write_file(home_ / "pcp.conf", "");
  write_file(home_ / "pool_hba.conf", "");
  write_file(
      home_ / "pgpool.conf",
      "listen_addresses = '127.0.0.1'\nport = " + std::to_string(port) + "\nunix_socket_directories = '" +
          home + "'\npcp_socket_dir = '" + home + "'\npcp_listen_addresses = ''\nwd_ipc_socket_dir = '" +
          home + "'\nlogdir = '" + home + "'\npid_file_name = '" + home +
          "/pgpool.pid'\nbackend_clustering_mode = 'raw'\nbackend_hostname0 = '127.0.0.1'\nbackend_port0 = " +
          std::to_string(server.port()) +
          "\nnum_init_children = 8\nmax_pool = 2\nenable_pool_hba = off\nload_balance_mode = off\n"
          "health_check_period = 0\nsr_check_period = 0\n");
  return {.argv = {"/usr/sbin/pgpool", "-n", "-f", home_ / "pgpool.conf", "-F", home_ / "pcp.conf", "-a",
                   home_ / "pool_hba.conf"},
          .account = server_account(),
          .directory = home,
          .death_signal = SIGINT};
}

haproxy::haproxy(const cluster& first, const cluster* second) : haproxy(first, second, random_port()) {}
haproxy::haproxy(const cluster& first, const cluster* second, int port)
    : middleman("HAProxy", port, command(first, second, port)) {}

bool haproxy::installed() { return access("/usr/sbin/haproxy", X_OK) == 0; }

process_options haproxy::command(const cluster& first, const cluster* second, int port) const {
  std::string text =
      "defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 1h\n  timeout server 1h\n  retries 1\n"
      "listen postgres\n  bind 127.0.0.1:" +
      std::to_string(port) + "\n  server first 127.0.0.1:" + std::to_string(first.port()) +
      " check inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions\n";
  if (second != nullptr)
    text += "  server second 127.0.0.1:" + std::to_string(second->port()) +
            " check inter 200ms fall 1 rise 1 backup\n";
  write_file(home_ / "haproxy.cfg", text);
  return {.argv = {"/usr/sbin/haproxy", "-db", "-f", home_ / "haproxy.cfg"}, .directory = home_.path()};
}

}  // namespace pgwake::test
