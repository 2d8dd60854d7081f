#include "daemon/operator/hub_client.hpp"

#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/message_codec.hpp"
#include "common/os/only_hub.hpp"
#include "daemon/settings/options.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {

using namespace pgwake;
using boost::system::result;
using steady = std::chrono::steady_clock;

namespace {

// Sockets of systemd's instances, as far as there are any.
std::string sockets_here() {
  std::string out;
  for (const auto& path : sockets_of_hubs()) out += (out.empty() ? "" : ", ") + printable(path);
  return out;
}

// A socket whose folder is gone cannot come back by itself.
bool folder_exists(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == path.npos || slash == 0 || access(path.substr(0, slash).c_str(), F_OK) == 0 ||
         errno != ENOENT;
}

// A socket bound to this path is listened to. What it says of files is another matter: it may be gone.
bool listens_without_file(const std::string& path) {
  // proc(5), /proc/net/unix: `Num RefCount Protocol Flags Type St Inode Path`; 00010000 is for listen().
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string skipped, flags, bound;
    if (words >> skipped >> skipped >> skipped >> flags >> skipped >> skipped >> skipped >> bound &&
        flags == "00010000" && line.ends_with(" " + path))
      return true;
  }
  return false;
}

std::string instance_or_name(const std::string& path) {
  const auto instance = instance_of_socket(path);
  return instance ? printable(*instance) : "NAME";
}

std::string how_to_start(const std::string& path) {
  const auto instance = instance_of_socket(path);
  std::string out = "Is pgwaked running? Start it (systemctl start pgwaked@" +
                    (instance && *instance != "main" ? printable(*instance) : "NAME") +
                    ", or pgwaked run), or name its socket with --socket or PGWAKE_SOCKET.";
  if (const auto others = sockets_here(); !others.empty()) out += " Here are: " + others + ".";
  return out;
}

std::string name_of_user(uid_t id) {
  const auto* entry = getpwuid(id);
  return entry != nullptr ? entry->pw_name : std::to_string(id);
}

std::string name_of_group(gid_t id) {
  const auto* entry = getgrgid(id);
  return entry != nullptr ? entry->gr_name : std::to_string(id);
}

// Who may connect, as far as the file can be seen, and what to do about it.
std::string rights_of(const std::string& path) {
  struct stat is {};
  if (stat(path.c_str(), &is) != 0)
    return "A directory on the way is closed to " + name_of_user(geteuid()) +
           ". Run this as root, or as somebody to whom it is open.";
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(is.st_mode & 07777U));
  const auto owner = name_of_user(is.st_uid);
  const auto out = std::string("Its mode is ") + mode.data() + ", owner " + owner + ", group " +
                   name_of_group(is.st_gid) + ". Run this as root, ";
  if ((is.st_mode & S_IWGRP) != 0) return out + "or as a member of that group.";
  return out + ((is.st_mode & S_IWUSR) != 0 && is.st_uid != 0 ? "or as " + owner + ", " : std::string()) +
         "or give the hub a socket_mode that admits the group, such as 0660, and restart it.";
}

std::string in_brackets(const std::string& text) { return text.empty() ? "" : " (" + text + ")"; }

}  // namespace

hub_failure hub_client::connect_failure(int error) const {
  using kind = hub_failure::kind;
  const auto at = printable(path_);
  if ((error == ENOENT || error == ENOTDIR) && listens_without_file(path_)) {
    const auto unit = "pgwaked@" + instance_or_name(path_);
    const auto both = unit + ".socket " + unit + ".service";
    return {
        kind::removed,
        "the hub at " + at +
            " runs, but its socket file, or the folder of that, was removed: nobody can reach it. It binds "
            "again within a few seconds, or its unit starts it anew. If it stays so the socket is a socket "
            "unit's, which makes it anew: systemctl stop " +
            both + " && systemctl start " + both};
  }
  const bool nobody = error == ENOENT || error == ECONNREFUSED;
  if (const auto pid = nobody ? lock_holder(path_) : std::nullopt)
    return {kind::no_socket,
            "the hub at " + at + " (PID " + std::to_string(*pid) +
                ") is stopping, or only just starting: it lives, and its socket is not there. "
                "A hub that stops waits up to drain_grace for its workers. Ask again in a "
                "moment. If it stays so somebody removed the socket file: then restart the hub, and its "
                "socket unit if it has one; its log says more (journalctl -u 'pgwaked@*')."};
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (!folder_exists(path_))
        return {kind::absent,
                "no hub at " + at +
                    ": its folder does not exist. No hub was started, or the folder was removed "
                    "below one that runs, which cannot be reached any more: then restart it. " +
                    how_to_start(path_)};
      return {kind::absent, "no hub at " + at + ": there is no such socket. " + how_to_start(path_)};
    case ECONNREFUSED:
      if (struct stat is{}; stat(path_.c_str(), &is) == 0 && !S_ISSOCK(is.st_mode))
        return {kind::wrong_path, at + " is not a socket. " + how_to_start(path_)};
      return {kind::stale, "no hub at " + at +
                               ": the socket file is there, but nobody listens to it (a hub that was killed "
                               "leaves it behind; the next one replaces it). " +
                               how_to_start(path_)};
    case EACCES:
    case EPERM:
      return {kind::denied, "cannot connect to " + at + " as " + name_of_user(geteuid()) +
                                ": permission denied. " + rights_of(path_)};
    case ENOTSOCK:
    case EPROTOTYPE:
      return {kind::wrong_path, at + " is not a hub's socket. " + how_to_start(path_)};
    default:
      return {kind::wrong_path, "cannot connect to " + at + ": " + std::strerror(error)};
  }
}

hub_failure hub_client::lost(int error) const {
  return {hub_failure::kind::broken,
          "the hub at " + printable(path_) + " closed the connection" +
              (error != 0 ? std::string(" (") + std::strerror(error) + ")" : std::string()) +
              ". Its log says why (journalctl -u 'pgwaked@*')."};
}

// Empty: it is the hub that listens there, or nobody can tell.
std::string hub_client::foreigner() const {
  ucred who{};
  socklen_t size = sizeof who;
  // The process that called listen(): 1 is systemd for a socket unit, 0 one of another PID namespace.
  if (!fd_ || getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 1) return {};
  const auto holder = lock_holder(path_);
  if (holder == who.pid) return {};
  std::ifstream file("/proc/" + std::to_string(who.pid) + "/comm");
  std::string name;
  std::getline(file, name);
  if (!holder && (name == "pgwaked" || name.empty())) return {};  // its lock file may have been removed
  return "process " + std::to_string(who.pid) + (name.empty() ? "" : " (" + printable(name) + ")") +
         " listens at " + printable(path_) +
         (holder ? ", not the hub, which is process " + std::to_string(*holder) : ", and is no pgwaked");
}

hub_failure hub_client::silent() const {
  if (const auto who = foreigner(); !who.empty())
    return {hub_failure::kind::wrong_path,
            who + ". It does not answer as a hub: stop it, then restart the hub."};
  return {hub_failure::kind::silent, "the hub at " + printable(path_) + " does not answer within " +
                                         short_duration(patience_) +
                                         ": it accepts connections, but its event loop stands still or the "
                                         "machine is overloaded. Look at its log, or restart it."};
}

result<hub_client, hub_failure> hub_client::open(std::string path, std::string_view name,
                                                 std::chrono::milliseconds patience) {
  hub_client out(std::move(path), patience);
  const auto until = steady::now() + patience;
  if (const auto done = out.connect(until); !done) return done.error();
  hello h;
  h.v = protocol_version;
  h.name = std::string(name);
  h.operates = true;
  if (const auto done = out.send(h, until); !done) {
    // It may have said `bye` before it closed.
    auto said = out.await<welcome>(until);
    return said ? done.error() : said.error();
  }
  auto answer = out.await<welcome>(until);
  if (!answer) return answer.error();
  out.welcome_ = std::move(*answer);
  return out;
}

result<void, hub_failure> hub_client::connect(deadline until) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof address.sun_path)
    return hub_failure{hub_failure::kind::wrong_path, "the socket path " + printable(path_) + " has " +
                                                          std::to_string(path_.size()) +
                                                          " bytes; a Unix socket's path has 1 to 107"};
  std::memcpy(address.sun_path, path_.data(), path_.size());
  fd_ = unique_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_) return connect_failure(errno);
  while (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return connect_failure(errno);
    // The hub's backlog is full: there is nothing to poll for.
    if (steady::now() >= until) return silent();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {};
}

result<void, hub_failure> hub_client::wait(short events, deadline until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady::now()).count();
    if (left <= 0) return silent();
    pollfd p{fd_.get(), events, 0};
    const int n = poll(&p, 1, static_cast<int>(left));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return lost(errno);
  }
}

result<void, hub_failure> hub_client::send(const from_worker& message, deadline until) {
  std::string frame;
  encode(frame, message);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const auto n = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n > 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (const auto ready = wait(POLLOUT, until); !ready) return ready.error();
    } else if (errno != EINTR) {
      return lost(errno);
    }
  }
  return {};
}

result<from_hub, hub_failure> hub_client::next(deadline until) {
  std::array<char, 64 * 1024> buffer;
  for (;;) {
    std::string_view body;
    const auto outcome = reader_.next(body);
    if (outcome == frame_reader::outcome::frame) {
      from_hub message;
      std::string why;
      if (decode(body, message, why)) return message;
      return hub_failure{hub_failure::kind::broken, "what answers at " + printable(path_) +
                                                        " does not speak pgwake's protocol: " + why +
                                                        in_brackets(foreigner())};
    }
    if (outcome != frame_reader::outcome::need_more)
      return hub_failure{hub_failure::kind::broken,
                         "what answers at " + printable(path_) +
                             " does not speak pgwake's protocol: an impossible length" +
                             in_brackets(foreigner())};
    const auto n = recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      reader_.append({buffer.data(), static_cast<std::size_t>(n)});
    } else if (n == 0) {
      return lost(0);
    } else if (errno == EAGAIN) {
      if (const auto ready = wait(POLLIN, until); !ready) return ready.error();
    } else if (errno != EINTR) {
      return lost(errno);
    }
  }
}

template <typename Message>
result<Message, hub_failure> hub_client::await(deadline until) {
  for (;;) {
    auto message = next(until);
    if (!message) return message.error();
    if (auto* wanted = std::get_if<Message>(&*message)) return std::move(*wanted);
    if (const auto* b = std::get_if<bye>(&*message))
      return hub_failure{hub_failure::kind::refused,
                         "the hub at " + printable(path_) + " refused this connection (" +
                             std::string(to_string(b->why)) + "): " + printable(b->reason)};
  }
}

result<std::string, hub_failure> hub_client::stats() {
  const auto until = steady::now() + patience_;
  if (const auto sent = send(stats_request{}, until); !sent) return sent.error();
  auto answer = await<pgwake::stats>(until);
  if (!answer) return answer.error();
  return result<std::string, hub_failure>(boost::system::in_place_value, std::move(answer->json));
}

std::uint32_t hub_client::server_uid() const {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.uid : UINT32_MAX;
}

result<control_answer, hub_failure> hub_client::control(const control_request& wish) {
  const auto until = steady::now() + patience_;
  if (const auto sent = send(wish, until); !sent) return sent.error();
  return await<control_answer>(until);
}

std::string hub_socket(const loaded& what) {
  const bool named = !what.is_default("socket") || what.values.socket != settings{}.socket;
  return named ? what.values.socket : socket_when_unnamed();
}

}  // namespace pgwaked
