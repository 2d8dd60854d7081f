#include "client/src/shell/hub_link.hpp"

#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/message_codec.hpp"
#include "common/os/unique_fd.hpp"

namespace pgwake::client {
namespace {

constexpr std::size_t read_bytes = 32 * 1024;
constexpr std::size_t max_unsent = 64U << 20U;  // far more than all channels of a program at once
constexpr int reads_per_turn = 4;  // then what came is handed on, and commands and timers get their turn

std::string words(int error) { return std::generic_category().message(error); }

// A name, or a number: in another container the hub's user may have no name.
std::optional<uid_t> uid_of(const std::string& user) {
  uid_t number = 0;
  const auto* end = user.data() + user.size();
  if (const auto [at, error] = std::from_chars(user.data(), end, number); error == std::errc{} && at == end)
    return number;
  std::vector<char> buffer(16 * 1024);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->pw_uid;
}

// The name is looked up only when it decides: that may ask a directory server.
std::string distrust(int fd, const std::string& hub_user) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return "who listens there is not known: " + words(errno);
  if (peer.uid == 0 || peer.uid == ::geteuid()) return "";
  if (const auto uid = uid_of(hub_user); uid && *uid == peer.uid) return "";
  return "whoever listens there runs as uid " + std::to_string(peer.uid) +
         ", which is neither root nor this user nor " + hub_user + " (hub_user)";
}

}  // namespace

hub_link::hub_link(boost::asio::io_context& loop, hub_events& events)
    : socket_(loop), events_(&events), reader_(max_frame_from_hub) {}

hub_link::failure hub_link::connect(const std::string& path, const std::string& hub_user) {
  close();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return {"the path of the hub's socket is too long: " + path, true};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  unique_fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {"no socket: " + words(errno), false};
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {path + ": the hub accepts no connections", false};
    if (errno == EACCES || errno == EPERM)
      return {.reason = path + ": " + words(errno) +
                        "; this process must be in the socket's group (and be started anew once it is)",
              .denied = true};
    return {path + ": " + words(errno), false};
  }
  if (auto why = distrust(fd.get(), hub_user); !why.empty()) return {path + ": " + why, true};
  boost::system::error_code error;
  socket_.assign(fd.get(), error);
  if (error) return {"no room in the event loop: " + error.message(), false};
  fd.release();
  ++generation_;
  reader_ = frame_reader(max_frame_from_hub);
  buffer_.resize(read_bytes);
  wait_readable();
  return {};
}

void hub_link::close() {
  ++generation_;
  waiting_writable_ = false;
  out_.clear();
  sent_ = 0;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void hub_link::abandon() {
  if (socket_.is_open()) ::close(socket_.native_handle());
}

void hub_link::lose(std::string reason) {
  close();
  events_->on_hub_closed(std::move(reason));
}

void hub_link::send(const from_worker& message) {
  if (open()) encode(out_, message);
}

// True: the link is gone.
bool hub_link::overflows() {
  if (out_.size() - sent_ <= max_unsent) return false;
  lose("the hub does not read what it is sent");
  return true;
}

void hub_link::flush() {
  if (overflows()) return;
  while (open() && !waiting_writable_ && sent_ < out_.size()) {
    const auto n = ::send(socket_.native_handle(), out_.data() + sent_, out_.size() - sent_,
                          MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      wait_writable();
    } else if (errno != EINTR) {
      // What the hub has said before is still readable, and its end with it.
      out_.clear();
      sent_ = 0;
      return;
    }
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
    if (out_.capacity() > max_frame_from_worker) out_.shrink_to_fit();
  }
}

void hub_link::wait_writable() {
  waiting_writable_ = true;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                     [this, mine = generation_](const boost::system::error_code& error) {
                       if (error || mine != generation_) return;
                       waiting_writable_ = false;
                       flush();
                     });
}

void hub_link::wait_readable() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this, mine = generation_](const boost::system::error_code& error) {
                       if (error || mine != generation_) return;
                       for (int i = 0; i < reads_per_turn && mine == generation_; ++i)
                         if (read_some() < buffer_.size()) break;
                       events_->on_hub_turn_end();
                       if (mine == generation_) wait_readable();
                     });
}

bool hub_link::read_pass() {
  if (!open()) return false;
  const auto mine = generation_;
  return read_some() > 0 || mine != generation_;
}

std::size_t hub_link::read_some() {
  const auto n = ::recv(socket_.native_handle(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n > 0) {
    reader_.append({buffer_.data(), static_cast<std::size_t>(n)});
    events_->on_hub_bytes();
    hand_out();
    return static_cast<std::size_t>(n);
  }
  if (n == 0)
    lose("the hub closed the connection");
  else if (errno != EAGAIN && errno != EINTR)
    lose("the connection to the hub broke: " + words(errno));
  return 0;
}

void hub_link::hand_out() {
  const auto mine = generation_;
  std::string_view body;
  while (mine == generation_) {
    switch (reader_.next(body)) {
      case frame_reader::outcome::need_more:
        return;
      case frame_reader::outcome::empty:
      case frame_reader::outcome::too_long:
        return lose("a malformed frame from the hub: its length makes no sense");
      case frame_reader::outcome::frame:
        break;
    }
    if (wake w; decode_plain_wake(body, w)) {
      events_->on_hub_wake(std::move(w));
      continue;
    }
    from_hub message;
    std::string why;
    if (!decode(body, message, why)) return lose("a malformed frame from the hub: " + why);
    events_->on_hub_message(std::move(message));
  }
}

}  // namespace pgwake::client
