#include "client/src/core/stream_cut.hpp"

#include <utility>

namespace pgwake::client {

void stream_cut::begin(side s, std::string mark) {
  on_ = s;
  mark_ = std::move(mark);
  second_ = false;
}

void stream_cut::go_on(std::string mark) {
  mark_ = std::move(mark);
  second_ = true;
}

void stream_cut::end() { passed(std::exchange(on_, side::none)); }

}  // namespace pgwake::client
