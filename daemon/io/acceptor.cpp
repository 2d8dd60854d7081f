#include "daemon/io/acceptor.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace pgwaked {
namespace {

constexpr std::chrono::milliseconds shortage_pause{250};
constexpr std::chrono::seconds complain_every{5};

peer peer_of(int fd) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
  return {who.pid, who.uid, who.gid};
}

}  // namespace

acceptor::acceptor(boost::asio::any_io_executor executor, log& out, handler on_worker, int per_turn)
    : socket_(executor), timer_(executor), log_(out), on_worker_(std::move(on_worker)), per_turn_(per_turn) {}

void acceptor::start(unique_fd listening) {
  socket_.assign(listening.release());
  wait();
}

void acceptor::stop(waiting how) {
  timer_.cancel();
  if (!socket_.is_open()) return;
  if (how == waiting::take) accept_some();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void acceptor::wait() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;
                       accept_some();
                     });
}

void acceptor::accept_some() {
  for (int i = 0; i < per_turn_; ++i) {
    unique_fd fd(accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      const auto who = peer_of(fd.get());
      on_worker_(std::move(fd), who);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) return pause(errno);
    break;
  }
  wait();
}

void acceptor::pause(int error) {
  const auto now = std::chrono::steady_clock::now();
  if (!last_complaint_ || now - *last_complaint_ >= complain_every) {
    last_complaint_ = now;
    log_.error(
        "accepting paused",
        pgwake::log_fields()
            .add("reason", std::strerror(error))
            .add("what_to_do", "raise the descriptor limit (LimitNOFILE, ulimit -n) or lower max_workers"));
  }
  timer_.expires_after(shortage_pause);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) wait();
  });
}

}  // namespace pgwaked
