#include "support/proxy_link.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace pgwake::test {
namespace {

constexpr std::uint32_t ssl_request = 80877103;
constexpr std::uint32_t gssenc_request = 80877104;
constexpr std::uint32_t cancel_request = 80877102;

std::uint32_t be32(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::string be32(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(value >> static_cast<unsigned>(shift) & 0xffU);
  return bytes;
}

// ErrorResponse and ReadyForQuery (idle), as the server would send them.
std::string error_answer(const std::string& sqlstate) {
  std::string fields;
  for (const auto& field : {std::string("SERROR"), std::string("VERROR"), "C" + sqlstate,
                            std::string("Minjected by the test proxy")})
    fields += field + '\0';
  fields += '\0';
  return "E" + be32(fields.size() + 4) + fields + "Z" + be32(5) + "I";
}

// A CommandComplete for each statement, and ReadyForQuery, though nothing was done.
std::string pretended_answer(const std::string& query) {
  const auto tag = query.substr(0, query.find(' ')) + '\0';
  std::string bytes;
  for (const char c : ";" + query)
    if (c == ';') bytes += "C" + be32(tag.size() + 4) + tag;
  return bytes + "Z" + be32(5) + "I";
}

}  // namespace

proxy_link::proxy_link(int client, int server, bool opaque, std::size_t stall_after, std::size_t cut_after)
    : client_(client),
      server_(server),
      stage_(opaque ? stage::opaque : stage::startup),
      stall_after_(stall_after),
      cut_after_(cut_after) {}

proxy_link::~proxy_link() {
  for (const int fd : {client_, server_})
    if (fd >= 0) close(fd);
}

void proxy_link::reset() {
  const linger hard{1, 0};
  for (const int fd : {client_, server_})
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  finished_ = true;
}

void proxy_link::push(lane& to, std::string bytes, clock::time_point due) {
  if (bytes.empty()) return;
  to.buffered += bytes.size();
  to.queue.push_back({std::move(bytes), due});
}

bool proxy_link::can_write(const lane& from, clock::time_point now) const {
  return !from.queue.empty() && from.queue.front().due <= now && from.held_until <= now;
}

clock::time_point proxy_link::next_due() const {
  auto due = clock::time_point::max();
  const auto now = clock::now();
  for (const lane* one : {&to_server_, &to_client_})
    if (!one->queue.empty()) {
      const auto at = std::max(one->queue.front().due, one->held_until);
      if (at > now) due = std::min(due, at);
    }
  return due;
}

proxy_link::interest proxy_link::client_interest(const proxy_faults& faults, clock::time_point now) const {
  short events = 0;
  if (!faults.to_server_lost && server_ >= 0 && to_server_.wants_read()) events |= POLLIN;
  if (!faults.to_client_lost && !stalled() && can_write(to_client_, now)) events |= POLLOUT;
  return {events == 0 ? -1 : client_, events};
}

proxy_link::interest proxy_link::server_interest(const proxy_faults& faults, clock::time_point now) const {
  short events = 0;
  if (!faults.to_client_lost && !stalled() && to_client_.wants_read()) events |= POLLIN;
  if (!faults.to_server_lost && can_write(to_server_, now)) events |= POLLOUT;
  return {events == 0 ? -1 : server_, events};
}

void proxy_link::on_client(short events, proxy_faults& faults) {
  if (!finished_ && (events & (POLLIN | POLLHUP | POLLERR)) != 0 && !faults.to_server_lost &&
      to_server_.wants_read())
    read_into(client_, true, faults);
  if (!finished_ && (events & POLLOUT) != 0) write_from(to_client_, client_, true);
  if (!finished_) pass_end(to_server_, server_);
  if (!finished_) pass_end(to_client_, client_);
}

void proxy_link::on_server(short events, proxy_faults& faults) {
  if (!finished_ && (events & (POLLIN | POLLHUP | POLLERR)) != 0 && !faults.to_client_lost &&
      to_client_.wants_read())
    read_into(server_, false, faults);
  if (!finished_ && (events & POLLOUT) != 0) write_from(to_server_, server_, false);
  if (!finished_) pass_end(to_client_, client_);
  if (!finished_) pass_end(to_server_, server_);
}

void proxy_link::read_into(int fd, bool from_client_side, proxy_faults& faults) {
  char buffer[65536];
  const ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) reset();  // one side was reset: so is the other
    return;
  }
  if (got == 0) {
    (from_client_side ? to_server_ : to_client_).ended = true;
    return;
  }
  std::string bytes(buffer, static_cast<std::size_t>(got));
  if (from_client_side) {
    unparsed_ += bytes;
    from_client(faults);
    return;
  }
  from_server(std::move(bytes), faults);
  if (stage_ == stage::startup || stage_ == stage::opaque) from_client(faults);
}

// Passes on whole messages, but for notifications where the client shall be deaf.
void proxy_link::from_server(std::string bytes, const proxy_faults& faults) {
  const auto due = clock::now() + faults.delay;
  if (stage_ == stage::startup_answer) {  // of one byte: whether TLS follows
    stage_ = bytes[0] == 'N' ? stage::startup : stage::opaque;
    return push(to_client_, std::move(bytes), due);
  }
  if (stage_ != stage::typed) return push(to_client_, std::move(bytes), due);
  server_unparsed_ += bytes;
  std::string passed;
  std::size_t begin = 0;
  while (server_unparsed_.size() >= begin + 5) {
    const std::size_t length = 1 + be32(server_unparsed_, begin + 1);
    if (server_unparsed_.size() < begin + length) break;
    if (!faults.deaf || server_unparsed_[begin] != 'A') passed.append(server_unparsed_, begin, length);
    begin += length;
  }
  server_unparsed_.erase(0, begin);
  push(to_client_, std::move(passed), due);
}

// Cuts what the client sent into messages and passes them on, unless a rule says otherwise.
void proxy_link::from_client(proxy_faults& faults) {
  while (!unparsed_.empty()) {
    auto due = clock::now() + faults.delay;
    if (stage_ == stage::opaque || stage_ == stage::startup_answer) {
      push(to_server_, std::exchange(unparsed_, {}), due);
      return;
    }
    const std::size_t header = stage_ == stage::startup ? 0 : 1;
    if (unparsed_.size() < header + 8 && (header == 0 || unparsed_.size() < 5)) return;
    const std::size_t length = header + be32(unparsed_, header);
    if (unparsed_.size() < length) return;
    std::string message = unparsed_.substr(0, length);
    unparsed_.erase(0, length);
    bool forward = true;
    if (stage_ == stage::startup) {
      const std::uint32_t code = be32(message, 4);
      stage_ = code == ssl_request || code == gssenc_request ? stage::startup_answer
               : code == cancel_request                      ? stage::opaque
                                                             : stage::typed;
      if (stage_ == stage::typed && !faults.login_answer.empty()) {
        push(to_client_, faults.login_answer, due);
        to_client_.ended = to_server_.ended = true;
        forward = false;
      }
    } else if (message[0] == 'Q') {
      const std::string query = message.substr(5, length - 6);
      faults.queries.push_back(query.substr(0, 1024 * 1024));
      forward = apply_rules(query, faults, due);
    }
    if (forward) push(to_server_, std::move(message), due);
  }
}

bool proxy_link::apply_rules(const std::string& query, proxy_faults& faults, clock::time_point& due) {
  for (auto& rule : faults.rules) {
    if (rule.times == 0 || query.find(rule.text) == std::string::npos) continue;
    if (rule.times > 0) --rule.times;
    switch (rule.what) {
      case query_rule::action::fail:
        push(to_client_, error_answer(rule.sqlstate), due);
        return false;
      case query_rule::action::swallow:
        push(to_client_, pretended_answer(query), due);
        return false;
      case query_rule::action::answer:
        push(to_client_, rule.bytes, due);
        return false;
      case query_rule::action::hold_query:
        due += rule.duration;
        return true;
      case query_rule::action::hold_answer:
        to_client_.held_until = clock::now() + rule.duration;
        return true;
    }
  }
  return true;
}

void proxy_link::write_from(lane& from, int fd, bool to_client) {
  const auto now = clock::now();
  while (can_write(from, now)) {
    auto& front = from.queue.front();
    std::size_t size = front.bytes.size() - from.offset;
    if (to_client) size = std::min({size, stall_after_ - sent_to_client_, cut_after_ - sent_to_client_});
    if (size == 0) break;
    const ssize_t sent = send(fd, front.bytes.data() + from.offset, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) reset();
      return;
    }
    from.offset += static_cast<std::size_t>(sent);
    from.buffered -= static_cast<std::size_t>(sent);
    if (to_client) sent_to_client_ += static_cast<std::size_t>(sent);
    if (from.offset == front.bytes.size()) {
      from.queue.pop_front();
      from.offset = 0;
    }
  }
  if (to_client && sent_to_client_ >= cut_after_) finished_ = true;
}

void proxy_link::pass_end(lane& from, int fd) {
  if (from.ended && from.queue.empty() && !from.shut) {
    from.shut = true;
    shutdown(fd, SHUT_WR);
  }
  if (to_server_.shut && to_client_.shut) finished_ = true;
}

}  // namespace pgwake::test
