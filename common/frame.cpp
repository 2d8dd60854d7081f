#include "common/frame.hpp"

namespace pgwake {

void frame_reader::append(std::string_view bytes) {
  if (taken_ == buffer_.size()) {
    buffer_.clear();
    if (buffer_.capacity() > max_frame_from_worker) buffer_.shrink_to_fit();
  } else if (taken_ > 0) {
    buffer_.erase(0, taken_);
  }
  taken_ = 0;
  buffer_.append(bytes);
}

void frame_reader::rest() {
  constexpr std::size_t worth_keeping = 4096;
  if (taken_ != buffer_.size() || buffer_.capacity() <= worth_keeping) return;
  std::string().swap(buffer_);
  taken_ = 0;
}

frame_reader::outcome frame_reader::next(std::string_view& body) {
  const auto rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < frame_header) return outcome::need_more;
  std::size_t size = 0;
  for (std::size_t i = 0; i < frame_header; ++i) size = size << 8U | static_cast<unsigned char>(rest[i]);
  if (size == 0) return outcome::empty;
  if (size > limit_) return outcome::too_long;
  if (rest.size() < frame_header + size) return outcome::need_more;
  body = rest.substr(frame_header, size);
  taken_ += frame_header + size;
  return outcome::frame;
}

void put_frame_header(std::string& out, std::size_t at, std::size_t size) {
  for (std::size_t i = 0; i < frame_header; ++i)
    out[at + i] = static_cast<char>(size >> (24U - 8U * i) & 255U);
}

void append_frame(std::string& out, std::string_view body) {
  const auto at = out.size();
  out.append(frame_header, '\0');
  put_frame_header(out, at, body.size());
  out.append(body);
}

}  // namespace pgwake
