#include "daemon/io/worker_io.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace pgwaked {
namespace {

constexpr std::size_t write_size = 256 * 1024;  // per system call; a Unix socket's buffer is about this
constexpr std::size_t copy_below = 1024;        // smaller frames are copied together, larger ones referenced
constexpr std::size_t max_pieces = 4096;

// Buffers of the one event loop thread, used within one call only.
struct scratch {
  std::array<char, worker_io::read_size> in;
  std::vector<char> small;
  std::vector<std::string_view> pieces;
  std::vector<iovec> parts;
};
scratch& buffers() {
  static thread_local scratch s;
  return s;
}

// Few large parts out of many small frames.
void compose(scratch& s) {
  s.parts.clear();
  s.small.clear();
  s.small.reserve(write_size + copy_below);  // never grows below: parts point into it
  bool joining = false;
  for (const auto piece : s.pieces) {
    if (piece.size() >= copy_below) {
      s.parts.push_back({const_cast<char*>(piece.data()), piece.size()});
      joining = false;
      continue;
    }
    char* at = s.small.data() + s.small.size();
    s.small.insert(s.small.end(), piece.begin(), piece.end());
    if (joining)
      s.parts.back().iov_len += piece.size();
    else
      s.parts.push_back({at, piece.size()});
    joining = true;
  }
}

}  // namespace

worker_io::worker_io(const boost::asio::any_io_executor& executor, int fd, worker_id id, worker_events& owner)
    : socket_(executor, boost::asio::local::stream_protocol(), fd), id_(id), owner_(&owner) {}

void worker_io::start() { wait_readable(); }

void worker_io::close() {
  owner_ = nullptr;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

int worker_io::release() {
  owner_ = nullptr;
  if (!socket_.is_open()) return -1;
  boost::system::error_code error;
  const int fd = socket_.release(error);
  return error ? -1 : fd;
}

void worker_io::gone() {
  if (auto* owner = owner_) {
    close();
    owner->on_gone(id_);
  }
}

void worker_io::wait_readable() {
  if (reading_ || owner_ == nullptr) return;
  reading_ = true;
  socket_.async_receive(boost::asio::buffer(first_),
                        [self = shared_from_this()](const boost::system::error_code& error, std::size_t n) {
                          if (self->owner_ == nullptr) return;
                          if (error) return self->gone();
                          self->came(n);
                          self->reading_ = false;  // not before: nothing may be read ahead of what is in hand
                          self->resume();
                        });
}

void worker_io::came(std::size_t bytes) {
  owner_->on_bytes(id_, {first_.data(), bytes});
  if (bytes < first_.size() || owner_ == nullptr || !owner_->may_read(id_)) return;
  auto& in = buffers().in;  // there may be much more
  const auto n = recv(socket_.native_handle(), in.data(), in.size(), 0);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return gone();
  if (n > 0) owner_->on_bytes(id_, {in.data(), static_cast<std::size_t>(n)});
}

void worker_io::resume() {
  if (owner_ != nullptr && owner_->may_read(id_)) wait_readable();
}

void worker_io::flush() {
  if (waiting_writable_ || owner_ == nullptr) return;
  const auto self = shared_from_this();
  auto* box = owner_->on_writable(id_);
  while (box != nullptr && box->sendable()) {
    if (!write_some(*box)) break;
  }
  if (owner_ != nullptr && !reading_) resume();
}

// One system call, for what the outbox has to say first; -1 and errno as it said, or how many bytes it took.
ssize_t worker_io::offer(std::size_t& offered) {
  constexpr int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  auto& s = buffers();
  if (s.pieces.size() == 1) {  // one answer, or one run of wakes: the usual case
    offered = s.pieces[0].size();
    return send(socket_.native_handle(), s.pieces[0].data(), offered, flags);
  }
  compose(s);
  msghdr message{};
  message.msg_iov = s.parts.data();
  message.msg_iovlen = std::min<std::size_t>(s.parts.size(), 1024);  // IOV_MAX
  offered = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) offered += s.parts[i].iov_len;
  return sendmsg(socket_.native_handle(), &message, flags);
}

// True if the socket took all that it was given.
bool worker_io::write_some(outbox& box) {
  auto& s = buffers();
  s.pieces.clear();
  box.gather(s.pieces, max_pieces, write_size);
  std::size_t offered = 0;
  const auto n = offer(offered);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno != EAGAIN) return gone(), false;
  if (n > 0) owner_->on_written(id_, static_cast<std::size_t>(n));
  if (n == static_cast<ssize_t>(offered)) return true;
  wait_writable();
  return false;
}

void worker_io::wait_writable() {
  waiting_writable_ = true;
  socket_.async_wait(boost::asio::socket_base::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_writable_ = false;
                       if (!error) self->flush();
                     });
}

}  // namespace pgwaked
