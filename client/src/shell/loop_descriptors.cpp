#include "client/src/shell/loop_descriptors.hpp"

#include <boost/asio/detail/reactor.hpp>
#include <boost/asio/detail/scheduler.hpp>
#include <boost/asio/execution_context.hpp>

namespace pgwake::client {
namespace {

using boost::asio::detail::epoll_reactor;
using boost::asio::detail::scheduler;
using boost::asio::detail::select_interrupter;

// An explicit instantiation may name private members ([temp.spec]): the one way to ask asio for these.
template <class Tag, typename Tag::type Member>
struct reveal {
  friend typename Tag::type member(Tag) { return Member; }
};
struct epoll_tag {
  using type = int epoll_reactor::*;
  friend type member(epoll_tag);
};
struct timer_tag {
  using type = int epoll_reactor::*;
  friend type member(timer_tag);
};
struct interrupter_tag {
  using type = select_interrupter epoll_reactor::*;
  friend type member(interrupter_tag);
};
struct stopped_tag {
  using type = bool scheduler::*;
  friend type member(stopped_tag);
};
template struct reveal<epoll_tag, &epoll_reactor::epoll_fd_>;
template struct reveal<timer_tag, &epoll_reactor::timer_fd_>;
template struct reveal<interrupter_tag, &epoll_reactor::interrupter_>;
template struct reveal<stopped_tag, &scheduler::stopped_>;

}  // namespace

std::array<int, 3> loop_descriptors(boost::asio::io_context& loop) {
  auto& reactor = boost::asio::use_service<epoll_reactor>(loop);
  auto& interrupter = reactor.*member(interrupter_tag{});
  return {reactor.*member(epoll_tag{}), reactor.*member(timer_tag{}), interrupter.read_descriptor()};
}

void stop_at_once(boost::asio::io_context& loop) {
  boost::asio::use_service<scheduler>(loop).*member(stopped_tag{}) = true;
}

}  // namespace pgwake::client
