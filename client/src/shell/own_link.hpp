#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "common/pg/connector.hpp"
#include "common/pg/session.hpp"
#include "common/upstream.hpp"

namespace pgwake::client {

// What the own connection tells its owner, from the event loop. Each may close it.
class own_events : public pg::session_events {
 public:
  virtual void on_own_opened(const session_info& info) = 0;
  virtual void on_own_failed(const connect_failure& failure) = 0;
  virtual void on_own_notified(const std::string& payload, const std::string& trouble) = 0;
};

// The own PostgreSQL session: opened off the loop, kept on it. Background thread only.
class own_link {
 public:
  own_link(boost::asio::io_context& loop, own_events& events, pg::connect_settings settings);
  ~own_link() { close(); }

  // One attempt at a time: while one is under way, its outcome is the answer.
  void open();
  void query(const std::string& sql);
  // Runs it in a session of its own, on a thread; its outcome is told by the payload. One at a time.
  void notify(const std::string& payload, const std::string& sql);
  bool read_pass();
  void close();
  // In a thread that cannot be interrupted.
  bool connecting() const { return connector_.busy() || second_.busy(); }
  // From here to forked(), any thread. An attempt has not been answered yet.
  bool under_way() const { return under_way_ || second_under_way_; }
  // A process was forked meanwhile: the child may hold that very connection, whose descriptor only libpq
  // knows. It is thrown away and made anew, so that no session is ever shared with a child.
  void forked() { tainted_ = true; }
  bool tainted() const { return tainted_; }
  // In a forked child: closes what was inherited without a word, touches nothing else.
  void abandon();

 private:
  void start();
  void opened(pg::connector::outcome outcome);

  boost::asio::io_context& loop_;
  own_events& events_;
  pg::connect_settings settings_;
  pg::connector connector_;
  pg::connector second_;
  std::shared_ptr<pg::session> session_;
  std::atomic<bool> under_way_ = false;
  std::atomic<bool> second_under_way_ = false;
  std::atomic<bool> tainted_ = false;
};

}  // namespace pgwake::client
