#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/io/acceptor.hpp"
#include "daemon/io/log.hpp"
#include "daemon/io/socket_file.hpp"
#include "daemon/metrics/text.hpp"
#include "daemon/settings/settings.hpp"

namespace pgwaked {

// Serves `/metrics`, `/livez`, `/readyz`, `/healthz` and a page at `/` over HTTP/1.1, on the daemon's event
// loop, at `metrics_listen`.
//
// It must not harm the hub: a request is at most 8 KiB of header and no body, a connection carries one
// request and lives for 10 s at most. What it answers with was made before the first byte is sent, so a
// slow reader holds some kilobytes and nothing else. By TCP it answers only to the names of this host's
// loopback, so that no web site can read it through somebody's browser, or, where there is a token, to
// whoever knows it.
//
// A flood of connections must not keep scrapes out. So connections are accepted in small slices, a turn of
// the loop between them in which those that have sent a request get their answer; of those that have not, a
// bounded number is kept, and the oldest makes room. Whoever has asked is never displaced by one who has not.
class metrics_server {
 public:
  // Called on the loop, once per request that needs it.
  struct content {
    std::function<std::string(metrics_format)> metrics;
    std::function<std::optional<std::string>()> unhealthy;  // why, or nothing
  };

  // `token`: asked of requests by TCP, but for their health; empty: none.
  metrics_server(boost::asio::any_io_executor executor, log& out, const settings& s, std::string token,
                 content what);
  ~metrics_server();

  // Throws std::runtime_error with words for the operator.
  void start();
  // Now and then: binds a Unix socket again whose file is gone.
  void look();
  void stop();
  // On reload. Connections that have asked already get their answer.
  void set_token(std::string token);

  // Connections that it holds at one time, by what they have done, and descriptors with its own two.
  static constexpr std::size_t max_waiting = 64;
  static constexpr std::size_t max_asked = 32;
  static constexpr std::size_t descriptors = max_waiting + max_asked + 2;

 private:
  class connection;
  struct table;

  void welcome(unique_fd fd);
  unique_fd open_tcp() const;

  boost::asio::any_io_executor executor_;
  log& log_;
  metrics_address address_;
  std::string main_socket_;
  std::optional<socket_file> file_;
  std::shared_ptr<table> table_;
  acceptor acceptor_;
  std::string trouble_;  // with the socket file, as logged
};

// Of this process, from getrusage and /proc. `start`: seconds since 1970.
process_figures figures_of_this_process(double start);

}  // namespace pgwaked
