#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <string>
#include <vector>

#include "common/frame.hpp"
#include "common/message.hpp"

namespace pgwake::client {

// What the link tells its owner, from the event loop. Each may close the link.
class hub_events {
 public:
  virtual ~hub_events() = default;
  virtual void on_hub_bytes() = 0;  // some came; what is in them follows
  virtual void on_hub_wake(wake&& w) = 0;
  virtual void on_hub_message(from_hub&& message) = 0;
  virtual void on_hub_closed(std::string reason) = 0;
  virtual void on_hub_turn_end() = 0;  // what was readable has been handed out
};

// The Unix socket to the hub: frames in, frames out. Background thread only.
class hub_link {
 public:
  hub_link(boost::asio::io_context& loop, hub_events& events);

  struct failure {
    std::string reason;     // empty: connected
    bool hopeless = false;  // whoever listens there is not to be trusted (C12)
    bool denied = false;    // this process may not connect
  };
  // At once: a Unix socket connects or does not.
  failure connect(const std::string& path, const std::string& hub_user);
  void send(const from_worker& message);  // goes out at flush()
  void flush();
  // Takes what has come by now; true if there was anything.
  bool read_pass();
  void close();
  bool open() const { return socket_.is_open(); }
  // In a forked child: closes the descriptor without a word, touches nothing else.
  void abandon();

 private:
  void wait_readable();
  void wait_writable();
  std::size_t read_some();  // bytes; fewer than there is room for: there is no more for now
  void hand_out();
  void lose(std::string reason);
  bool overflows();

  boost::asio::posix::stream_descriptor socket_;
  hub_events* events_;
  frame_reader reader_;
  std::vector<char> buffer_;  // for reading
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  bool waiting_writable_ = false;
  unsigned generation_ = 0;  // of the connection: completions of an older one are stale
};

}  // namespace pgwake::client
