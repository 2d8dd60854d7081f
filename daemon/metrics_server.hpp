#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/acceptor.hpp"
#include "daemon/log.hpp"
#include "daemon/metrics.hpp"
#include "daemon/settings.hpp"
#include "daemon/socket_file.hpp"

namespace pgwaked {

// Serves `/metrics`, `/healthz` and a page at `/` over HTTP/1.1, on the daemon's event loop, at
// `metrics_listen`.
//
// It must not harm the hub: a request is at most 8 KiB of header and no body, a connection carries one
// request and lives for 10 s at most, and there are at most 16, of which the oldest makes room for a new one.
// What it answers with was made before the first byte is sent, so a slow reader holds some kilobytes and
// nothing else. By TCP it answers only to the names of this host's loopback, so that no web site can read it
// through somebody's browser.
class metrics_server {
 public:
  // Called on the loop, once per request that needs it.
  struct content {
    std::function<std::string(metrics_format)> metrics;
    std::function<std::optional<std::string>()> unhealthy;  // why, or nothing
  };

  metrics_server(boost::asio::any_io_executor executor, log& out, const settings& s, content what);
  ~metrics_server();

  // Throws std::runtime_error with words for the operator.
  void start();
  // Now and then: binds a Unix socket again whose file is gone.
  void look();
  void stop();

  // Descriptors that it may use at one time.
  static constexpr std::size_t descriptors = 20;

 private:
  class connection;

  void welcome(unique_fd fd);
  unique_fd open_tcp() const;

  boost::asio::any_io_executor executor_;
  log& log_;
  metrics_address address_;
  std::string main_socket_;
  std::optional<socket_file> file_;
  std::shared_ptr<const content> content_;
  acceptor acceptor_;
  std::deque<std::weak_ptr<connection>> connections_;  // oldest first
};

// Of this process, from getrusage and /proc. `start`: seconds since 1970.
process_figures figures_of_this_process(double start);

}  // namespace pgwaked
