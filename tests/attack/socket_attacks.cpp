// What a worker of another user can do to a hub with nothing but its socket: connections and bytes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "attack/attack.hpp"
#include "attack/horde.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::attack {
namespace {

void connect_and_die(const target& t, const cease& stop) {
  for (int i = 0; i < 30'000 && !stop; ++i) {
    horde one(t.socket, 1);
    if (i % 3 == 0 && one.size() == 1) one.send(0, sub_of("gone"));
  }
}

void pass_descriptors(const target& t, const cease& stop) {
  horde many(t.socket, 20);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto frame = test::frame_of(R"({"t":"ping","id":1})");
  while (!stop && many.alive() > 0) {
    for (std::size_t i = 0; i < many.size(); ++i) {
      if (many.fd(i) < 0) continue;
      std::array<int, 64> passed{};
      passed.fill(null);
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof passed)> control{};
      iovec bytes{const_cast<char*>(frame.data()), frame.size()};
      msghdr message{};
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      auto* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof passed);
      std::memcpy(CMSG_DATA(header), passed.data(), sizeof passed);
      sendmsg(many.fd(i), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      many.read(i);
    }
  }
  close(null);
}

void one_byte_at_a_time(const target& t, const cease& stop) {
  horde many(t.socket, 500, false);
  const auto frame = test::frame_of(R"({"t":"hello","v":1})") + test::frame_of(sub_of(std::string(60, 'x')));
  for (std::size_t at = 0; !stop; at = (at + 1) % frame.size())
    for (std::size_t i = 0; i < many.size() && !stop; ++i) many.send_raw(i, {&frame[at], 1});
}

void unfinished_frames(const target& t, const cease& stop) {
  horde many(t.socket, 500, false);
  std::string most = test::frame_of(std::string(65'536, ' '));
  most.pop_back();
  for (std::size_t i = 0; i < many.size(); ++i) many.send_raw(i, most);
  while (!stop) {
    for (std::size_t i = 0; i < many.size(); ++i) many.send_raw(i, {});
    std::this_thread::yield();
  }
}

void too_many_connections(const target& t, const cease& stop) {
  horde many(t.socket, 6'000);
  while (!stop)
    for (std::size_t i = 0; i < many.size() && !stop; ++i) many.send(i, R"({"t":"ping","id":1})");
}

void half_closed(const target& t, const cease& stop) {
  while (!stop) {
    horde many(t.socket, 200);
    for (std::size_t i = 0; i < many.size(); ++i) {
      many.send(i, sub_of("half"));
      shutdown(many.fd(i), SHUT_WR);
    }
    many.read_all();
  }
}

void out_of_band(const target& t, const cease& stop) {
  horde many(t.socket, 50);
  while (!stop)
    for (std::size_t i = 0; i < many.size(); ++i) {
      if (many.fd(i) < 0) many.renew(i);
      const char byte = 1;
      ::send(many.fd(i), &byte, 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL);
      many.send(i, R"({"t":"ping","id":1})");
      many.read(i);
    }
}

// Each begins a connection with it, and comes again.
void each_once(const target& t, const cease& stop, const std::vector<std::string>& openings) {
  horde many(t.socket, openings.size(), false);
  while (!stop)
    for (std::size_t i = 0; i < many.size() && !stop; ++i) {
      many.send_raw(i, openings[i]);
      many.read(i);
      many.renew(i);
    }
}

void bad_frames(const target& t, const cease& stop) {
  const std::string hello = test::frame_of(R"({"t":"hello","v":1,"name":"attacker"})");
  each_once(t, stop,
            {std::string(4, '\0'), std::string("\x7f\xff\xff\xff", 4),
             test::frame_of(std::string(60'000, '[')), test::frame_of(R"({"t":)" + std::string(60'000, '{')),
             test::frame_of("[1]"), test::frame_of("\xff\xfe"), test::frame_of(R"({"t":"sub","q":"\ud800"})"),
             test::frame_of(R"({"t":1})"), test::frame_of("NaN"), test::frame_of(R"({"t":"sub","q":1e999})"),
             hello + hello, hello + test::frame_of(R"({"t":"ping","id":-1})"),
             hello + test::frame_of(R"({"t":"hello","v":0})"),
             test::frame_of(R"({"t":"hello","v":1,"name":")" + std::string(60'000, 'n') + "\\u0000\\n\"}")});
}

void refused_control(const target& t, const cease& stop) {
  horde many(t.socket, 20);
  const auto arg = std::string(60'000, 'a');
  while (!stop)
    for (std::size_t i = 0; i < many.size(); ++i) {
      for (int n = 0; n < 20; ++n)
        many.send(i, R"({"t":"control","do":"evict","arg":"1 pid=1 uid=0\nforged"})");
      many.send(i, R"({"t":"control","do":"drain","arg":")" + arg + "\"}");
      many.read(i);
    }
}

void forged_fields(const target& t, const cease& stop) {
  each_once(
      t, stop,
      std::vector<std::string>(
          20, test::frame_of("{\"t\":\"hello\",\"v\":1,\"name\":\"x\\n2026-01-01 error \\\"stopped\\\" uid=0 "
                             "pid=1 \\u001b[2J\\u202e\\u0085\",\"db\":\"a b=c\\\"\"}") +
                  test::frame_of("garbage")));
}

}  // namespace

const std::vector<attack>& socket_attacks() {
  static const std::vector<attack> all{
      {"connect-and-die", "worker", "30,000 connections that end at once", connect_and_die, true},
      {"descriptors", "worker", "64 descriptors passed with each frame", pass_descriptors},
      {"slow-loris", "worker", "500 connections, a byte at a time", one_byte_at_a_time},
      {"unfinished-frames", "worker", "500 frames of 64 KiB without their last byte", unfinished_frames},
      {"connections", "worker", "6,000 connections held, each with pings", too_many_connections, true},
      {"half-closed", "worker", "connections that shut their sending side", half_closed},
      {"out-of-band", "worker", "out-of-band bytes between frames", out_of_band},
      {"bad-frames", "worker", "14 kinds of malformed frames, in a loop", bad_frames, true},
      {"refused-control", "worker", "control frames that are refused, of up to 60 KB", refused_control, true},
      {"forged-fields", "worker", "names made to forge lines of the log", forged_fields},
  };
  return all;
}

}  // namespace pgwake::attack
