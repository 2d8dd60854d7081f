#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <memory>
#include <string_view>

#include "daemon/core/hub.hpp"

namespace pgwaked {

// What a worker's socket tells its owner, always from the event loop.
class worker_events {
 public:
  virtual ~worker_events() = default;
  virtual void on_bytes(worker_id id, std::string_view data) = 0;
  virtual void on_gone(worker_id id) = 0;  // end of file or a broken socket; may come once
  // Its outbox, to be written now; null if the hub no longer knows the worker.
  virtual outbox* on_writable(worker_id id) = 0;
  virtual void on_written(worker_id id, std::size_t bytes) = 0;
  virtual bool may_read(worker_id id) = 0;
};

// One worker's socket: reads when it may, writes its outbox when told, never blocks.
class worker_io : public std::enable_shared_from_this<worker_io> {
 public:
  // So much of what waits for its turn may be here beside a frame that is not complete.
  static constexpr std::size_t read_size = 16 * 1024;

  // Takes the descriptor, which must be non-blocking.
  worker_io(const boost::asio::any_io_executor& executor, int fd, worker_id id, worker_events& owner);

  void start();
  // Writes what the socket takes now; goes on by itself when it takes more.
  void flush();
  // Reads again, if reading had been suspended and may go on.
  void resume();
  void close();
  // Gives the socket away; -1 if it is closed already.
  int release();

 private:
  void wait_readable();
  void wait_writable();
  void came(std::size_t bytes);
  bool write_some(outbox& box);
  ssize_t offer(std::size_t& offered);
  void gone();

  boost::asio::local::stream_protocol::socket socket_;
  worker_id id_;
  worker_events* owner_;  // null once closed
  // What a worker says is short: asio reads it together with learning that it is there, and need not ask the
  // kernel to watch again.
  std::array<char, 512> first_;
  bool reading_ = false;
  bool waiting_writable_ = false;
};

}  // namespace pgwaked
