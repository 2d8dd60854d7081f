#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

#include "daemon/core/engine.hpp"
#include "daemon/io/log.hpp"
#include "daemon/io/socket_file.hpp"

namespace pgwaked {

// Accepts workers on one listening socket. Out of descriptors it pauses instead of spinning (K5).
class acceptor {
 public:
  using handler = std::function<void(unique_fd, const peer&)>;

  // `per_turn`: connections taken before the loop's other work has its turn.
  acceptor(boost::asio::any_io_executor executor, log& out, handler on_worker, int per_turn = 64);

  void start(unique_fd listening);
  // Stops. Who waits in the socket's queue is taken first, or left there for the socket's next owner.
  enum class waiting { take, leave };
  void stop(waiting how = waiting::take);

 private:
  void wait();
  void accept_some();
  void pause(int error);

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  log& log_;
  handler on_worker_;
  int per_turn_;
  std::optional<std::chrono::steady_clock::time_point> last_complaint_;
};

}  // namespace pgwaked
