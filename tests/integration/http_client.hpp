#pragma once

#include <string>
#include <string_view>

#include "support/eventually.hpp"

namespace pgwake::test {

/// A TCP port on 127.0.0.1, or, where `path` is set, a Unix socket.
struct http_address {
  int port = 0;
  std::string path{};
};

struct http_answer {
  int status = 0;      ///< 0: the connection ended without an answer
  std::string head{};  ///< status line and headers
  std::string body{};

  bool has_header(std::string_view line) const { return head.find(std::string(line) + "\r\n") != head.npos; }
};

/// A connection that speaks HTTP/1.1 by hand. What the system refuses is a std::runtime_error.
class http_connection {
 public:
  explicit http_connection(const http_address& where);
  http_connection(http_connection&& other) noexcept;
  http_connection& operator=(http_connection&&) = delete;
  ~http_connection();

  void send(std::string_view bytes);
  /// All that comes until the other side closes.
  http_answer receive(milliseconds patience = 5s);
  /// Whether the other side has closed, now or in time; what comes before is lost.
  bool closed(milliseconds patience);

 private:
  bool more(std::string& into, clock::time_point deadline);

  int fd_ = -1;
};

/// One request. `headers`: lines that end in CRLF; Host is localhost unless one of them is.
http_answer http_ask(const http_address& where, std::string_view target, std::string_view headers = {},
                     std::string_view method = "GET");

/// A sample's value in /metrics (the older format). Throws when there is no such series.
double metric(const http_address& where, std::string_view series);

}  // namespace pgwake::test
