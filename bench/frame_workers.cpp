#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "bench/receivers.hpp"
#include "common/frame.hpp"
#include "common/message_codec.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::bench {
namespace {

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) throw std::runtime_error("cannot write to the hub");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Reads, blocking, until `acks` acks came.
void await_acks(int fd, std::size_t acks) {
  frame_reader reader(max_frame_from_hub);
  char buffer[64 * 1024];
  while (acks > 0 || reader.mid_frame()) {
    const auto n = recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) throw std::runtime_error("the hub closed the connection");
    reader.append({buffer, static_cast<std::size_t>(n)});
    std::string_view body;
    while (reader.next(body) == frame_reader::outcome::frame) {
      from_hub message;
      std::string why;
      if (!decode(body, message, why)) throw std::runtime_error("malformed frame: " + why);
      if (std::holds_alternative<ack>(message)) --acks;
      if (std::holds_alternative<nack>(message)) throw std::runtime_error("nack: " + std::string(body));
    }
  }
}

}  // namespace

frame_workers::frame_workers(const std::string& socket, std::size_t count,
                             const std::vector<std::string>& channels) {
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = pgwake::test::connect_unix(socket);
    fds_.push_back(fd);
    wires_.push_back(std::make_unique<pgwake_wire>());
    std::string out;
    encode(out, from_worker{hello{protocol_version, "bench", std::nullopt}});
    for (const auto& name : channels) encode(out, from_worker{sub{wire_name{name, ""}}});
    send_all(fd, out);
  }
  for (const int fd : fds_) await_acks(fd, channels.size());
}

double subscribe_all(const std::string& socket, const std::vector<std::string>& scripts,
                     std::size_t acks_each) {
  const frame_workers workers(socket, scripts.size(), {});
  const auto begin = steady::now();
  std::thread sending([&] {
    for (std::size_t i = 0; i < scripts.size(); ++i) send_all(workers.descriptors()[i], scripts[i]);
  });
  for (const int fd : workers.descriptors()) await_acks(fd, acks_each);
  const auto took = since(begin);
  sending.join();
  return took;
}

frame_workers::~frame_workers() {
  for (const int fd : fds_) close(fd);
}

void frame_workers::add_to(receivers& all) {
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    const int fd = fds_[i];
    auto* w = wires_[i].get();
    all.add(fd, [fd, w] { return read_socket(fd, *w); });
  }
}

}  // namespace pgwake::bench
