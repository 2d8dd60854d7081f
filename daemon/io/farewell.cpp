#include "daemon/io/farewell.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

namespace pgwaked {
namespace {

constexpr std::chrono::seconds patience{2};
constexpr int most_reads = 256;  // of one socket

}  // namespace

struct farewell::guest : std::enable_shared_from_this<guest> {
  guest(const boost::asio::any_io_executor& executor, int fd, std::shared_ptr<std::size_t> among)
      : socket(executor, boost::asio::local::stream_protocol(), fd),
        timer(executor),
        count(std::move(among)) {
    ++*count;
  }
  ~guest() { --*count; }
  guest(const guest&) = delete;
  guest& operator=(const guest&) = delete;

  void start() {
    timer.expires_after(patience);
    timer.async_wait([self = weak_from_this()](const boost::system::error_code& cancelled) {
      boost::system::error_code ignored;
      if (const auto alive = self.lock(); alive && !cancelled) alive->socket.close(ignored);
    });
    read();
  }
  void read() {
    socket.async_receive(boost::asio::buffer(unread),
                         [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                           if (!error && ++self->reads < most_reads) self->read();
                         });
  }

  boost::asio::local::stream_protocol::socket socket;
  boost::asio::steady_timer timer;
  std::shared_ptr<std::size_t> count;
  std::array<char, 4096> unread;
  int reads = 0;
};

void farewell::take(unique_fd fd) {
  if (!fd || *guests_ >= most) return;
  shutdown(fd.get(), SHUT_WR);
  std::make_shared<guest>(executor_, fd.release(), guests_)->start();
}

}  // namespace pgwaked
