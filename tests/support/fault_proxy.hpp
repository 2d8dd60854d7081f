#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/proxy_link.hpp"

namespace pgwake::test {

class cluster;

/// A TCP port on 127.0.0.1, or, where `path` is set, a Unix socket.
struct endpoint {
  int port = 0;
  std::string path{};
};

enum class direction { to_server, to_client, both };

/// A proxy in a thread of its own that makes the network's and the server's troubles. Everything can be
/// switched at run time, from any thread, and applies to links that exist, unless said otherwise.
class fault_proxy {
 public:
  /// In front of a cluster, listening on a port of its own.
  explicit fault_proxy(const cluster& server);
  /// `speaks_postgres`: whether queries can be looked into (never inside TLS).
  fault_proxy(endpoint listen, endpoint target, bool speaks_postgres);
  fault_proxy(const fault_proxy&) = delete;
  fault_proxy& operator=(const fault_proxy&) = delete;
  ~fault_proxy();

  int port() const { return listen_.port; }
  std::string conninfo(std::string_view database = "postgres", std::string_view user = "postgres") const;
  void set_target(endpoint target);  ///< for new connections

  /// As if the cable were cut: no FIN, nothing forwarded that way, new connections hang. Off: what waited
  /// flows on.
  void black_hole(direction way = direction::both);
  void end_black_hole();
  void delay(milliseconds each_way);
  /// The server's notifications are taken out, the rest passes.
  void deafen(bool on = true);
  /// New connections are refused by the kernel.
  void refuse(bool on = true);
  /// New connections are accepted and never answered.
  void hang_connects(bool on = true);
  /// New connections hear `bytes` of the server, then nothing more. 9 (10 after an SSL request):
  /// AuthenticationOk.
  void stall_after(std::size_t bytes);
  /// New connections are closed once the server has sent so much.
  void cut_after(std::size_t bytes);
  void end_limits();  ///< of stall_after and cut_after, for new connections
  void close_all();   ///< FIN to both sides of every link
  void reset_all();   ///< RST

  /// A simple query that contains `text` is answered with an error, and never reaches the server.
  void fail_query(std::string text, std::string sqlstate, int times = -1);
  /// It is answered as if it had been carried out, and never reaches the server.
  void swallow_query(std::string text, int times = 1);
  /// It is answered with these bytes of the protocol, and never reaches the server.
  void answer_query(std::string text, std::string bytes, int times = 1);
  /// Startup packets are answered with these bytes instead, and the connection is closed; empty: no more.
  void answer_logins(std::string bytes);
  /// The client hears this from the server, on every link.
  void say(const std::string& bytes);
  /// It reaches the server only after `duration` (and so does all that the client sends behind it).
  void hold_query(std::string text, milliseconds duration, int times = 1);
  /// It is passed on, but nothing from the server is for `duration`.
  void hold_answer(std::string text, milliseconds duration, int times = 1);
  void clear_rules();

  std::size_t accepted() const;  ///< connections so far
  std::size_t open() const;      ///< links now
  std::vector<std::string> queries() const;
  void forget_queries();

 private:
  void run();
  void poll_once();
  void accept_one();
  int connect_target() const;
  void open_listener();
  void close_listener();
  template <class Change>
  void change(Change&& make);

  endpoint listen_;
  endpoint target_;
  bool speaks_postgres_;
  int listener_ = -1;
  int wake_ = -1;
  mutable std::mutex mutex_;
  proxy_faults faults_;
  bool hang_connects_ = false;
  std::size_t stall_after_ = static_cast<std::size_t>(-1);
  std::size_t cut_after_ = static_cast<std::size_t>(-1);
  std::size_t accepted_ = 0;
  bool stopping_ = false;
  std::list<proxy_link> links_;
  std::thread thread_;
};

}  // namespace pgwake::test
