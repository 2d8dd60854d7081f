#include "daemon/core/wake_run.hpp"

namespace pgwaked {
namespace {

constexpr std::size_t max_bytes = 16 * 1024;
constexpr std::size_t overhead = 64;  // of a frame, about, besides names and payload

// Past what they have, and they would grow (twofold) past their bound: so full bytes are nearly full.
bool full(const std::string& bytes, std::size_t more) {
  return bytes.size() + more > bytes.capacity() && 2 * bytes.capacity() > max_bytes;
}

}  // namespace

void wake_run::next(const void* channel, const pgwake::wake_view& wake) {
  ++number_;
  if (channel != channel_) run_begin_ = number_;
  channel_ = channel;
  wake_ = wake;
}

void wake_run::encode(slot& s, const dialect& d) {
  const auto size = overhead + wake_.q.size() + (wake_.payload ? wake_.payload->size() : 0);
  if (s.wake < run_begin_ || full(*s.growing, size)) {
    s.growing = std::make_shared<std::string>();
    s.growing->reserve(size);
    s.bytes = s.growing;
  }
  s.begin = s.growing->size();
  s.wake = number_;
  d.encode(*s.growing, wake_);
}

}  // namespace pgwaked
