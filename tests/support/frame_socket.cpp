#include "support/frame_socket.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "support/files.hpp"

namespace pgwake::test {

std::string frame_of(std::string_view text) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(text.size() >> static_cast<unsigned>(shift) & 0xffU);
  return bytes.append(text);
}

std::string json_string(std::string_view text) {
  rapidjson::StringBuffer out;
  rapidjson::Writer<rapidjson::StringBuffer> writer(out);
  writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  return {out.GetString(), out.GetSize()};
}

int connect_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // 108 bytes without a final NUL are a valid address for the kernel.
  if (path.size() > sizeof address.sun_path) throw std::runtime_error("socket path too long: " + path);
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                             (path.size() < sizeof address.sun_path ? 1 : 0));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_errno("socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int reason = errno;
  close(fd);
  errno = reason;
  throw_errno("cannot connect to " + path);
}

bool can_connect(const std::string& path) {
  try {
    close(connect_unix(path));
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

frame::frame(std::string raw) : text(std::move(raw)) {
  doc.Parse(text.data(), text.size());
  if (doc.HasParseError() || !doc.IsObject())
    throw std::runtime_error("the hub sent no JSON object: " + text);
}

std::optional<std::string> frame::optional_string(const char* member) const {
  const auto found = doc.FindMember(member);
  if (found == doc.MemberEnd() || !found->value.IsString()) return std::nullopt;
  return std::string(found->value.GetString(), found->value.GetStringLength());
}
std::string frame::string(const char* member) const { return optional_string(member).value_or(""); }

std::int64_t frame::number(const char* member) const {
  const auto found = doc.FindMember(member);
  return found != doc.MemberEnd() && found->value.IsInt64() ? found->value.GetInt64() : 0;
}

bool frame::flag(const char* member) const {
  const auto found = doc.FindMember(member);
  return found != doc.MemberEnd() && found->value.IsBool() && found->value.GetBool();
}

std::optional<std::string> frame_reader::next() {
  if (pending() < 4) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length = length << 8U | static_cast<unsigned char>(buffer_[begin_ + i]);
  if (pending() < 4 + length) return std::nullopt;
  std::string text = buffer_.substr(begin_ + 4, length);
  begin_ += 4 + length;
  if (begin_ > 1024 * 1024 || begin_ == buffer_.size()) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return text;
}

}  // namespace pgwake::test
