#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pgwake {

// A frame is a 4-byte big-endian length and that many bytes.
inline constexpr std::size_t frame_header = 4;
inline constexpr std::size_t max_frame_from_worker = 64 * 1024;
inline constexpr std::size_t max_frame_from_hub = 4 * 1024 * 1024;

// Cuts a byte stream into frames. The length is checked against the limit before anything is allocated, and
// memory follows the bytes received, never the length announced.
class frame_reader {
 public:
  explicit frame_reader(std::size_t limit) : limit_(limit) {}

  enum class outcome { frame, need_more, empty, too_long };

  // Adds bytes read from the peer. Invalidates bodies handed out before.
  void append(std::string_view bytes);

  // The next whole frame's body, valid until the next append() or next(). After `empty` or `too_long` the
  // stream is broken for good and every later call says the same.
  outcome next(std::string_view& body);

  // Gives the memory of a burst back, once all of it was taken. Invalidates bodies handed out before.
  void rest();
  std::size_t held() const { return buffer_.size() - taken_; }  // bytes that no next() has taken

  // True while a frame has begun (even one byte of its header) and is not complete.
  bool mid_frame() const { return !buffer_.empty() && taken_ < buffer_.size(); }

 private:
  std::size_t limit_;
  std::string buffer_;
  std::size_t taken_ = 0;
};

// Appends header and body. The body must be within the peer's limit.
void append_frame(std::string& out, std::string_view body);

// Writes the header of a body of `size` bytes over out[at .. at+4).
void put_frame_header(std::string& out, std::size_t at, std::size_t size);

}  // namespace pgwake
