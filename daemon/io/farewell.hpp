#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>

#include "daemon/io/socket_file.hpp"

namespace pgwaked {

// Sockets whose last words are written. One that is closed while something of the peer's is unread takes the
// words away from it; so what it still sends is thrown away until it has closed its side, for a short time.
class farewell {
 public:
  explicit farewell(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  // Past `most` at one time the socket is closed at once.
  void take(unique_fd fd);
  static constexpr std::size_t most = 64;

 private:
  struct guest;

  boost::asio::any_io_executor executor_;
  std::shared_ptr<std::size_t> guests_ = std::make_shared<std::size_t>(0);
};

}  // namespace pgwaked
