#include "support/pgbouncer.hpp"

#include <libpq-fe.h>

#include <stdexcept>

#include "support/eventually.hpp"

namespace pgwake::test {

pgbouncer::pgbouncer(const cluster& server, std::string_view mode, std::string_view more)
    : port_(random_port()), process_(launch(server, mode, more)) {
  const std::string target = conninfo() + " connect_timeout=2";
  const bool up = eventually(10s, [&] { return !process_.running() || PQping(target.c_str()) == PQPING_OK; });
  if (!up || !process_.running()) throw std::runtime_error("PgBouncer does not start:\n" + process_.err());
}

process pgbouncer::launch(const cluster& server, std::string_view mode, std::string_view more) const {
  give_to_server(home_.path());
  const std::string ini = home_ / "pgbouncer.ini";
  // auth_type=any takes every client as the user of the [databases] line; names that clients give are not
  // checked.
  write_file(ini, "[databases]\n* = host=127.0.0.1 port=" + std::to_string(server.port()) +
                      " user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " +
                      std::to_string(port_) +
                      "\nunix_socket_dir =\nauth_type = any\npool_mode = " + std::string(mode) +
                      "\nmax_client_conn = 500\ndefault_pool_size = 5\nserver_idle_timeout = 60\n" +
                      std::string(more) + "\n");
  return process({.argv = {"pgbouncer", ini},
                  .env = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}},
                  .account = server_account(),
                  .directory = home_.path(),
                  .death_signal = SIGINT});
}

std::string pgbouncer::conninfo(std::string_view database, std::string_view user) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " dbname='" + std::string(database) + "' user='" +
         std::string(user) + "'";
}

}  // namespace pgwake::test
