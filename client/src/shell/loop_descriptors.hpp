#pragma once

#include <array>
#include <boost/asio/io_context.hpp>

namespace pgwake::client {

// The descriptors that asio keeps for itself in an event loop: epoll, timer, interrupter. -1 where it has
// none. A forked child closes them by number, since the loop's own way through a fork would make new ones.
std::array<int, 3> loop_descriptors(boost::asio::io_context& loop);

// The turn that a signal handler of this thread has interrupted ends without another one. For a forked child
// with no other thread: takes no lock, which the interrupted code may hold.
void stop_at_once(boost::asio::io_context& loop);

}  // namespace pgwake::client
