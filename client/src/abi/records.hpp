#pragma once

#include <cstddef>
#include <span>

#include "client/src/core/types.hpp"

namespace pgwake::client::abi {

// Events as pgwake_record's, one behind the other, in memory of the application's.
class record_writer {
 public:
  explicit record_writer(std::span<unsigned char> room) : room_(room) {}

  // False: it does not fit, and nothing of it was written.
  bool write(const event& e);
  std::size_t used() const { return used_; }
  int count() const { return count_; }
  // Of the record that did not fit.
  std::size_t needed() const { return needed_; }

 private:
  std::span<unsigned char> room_;
  std::size_t used_ = 0;
  std::size_t needed_ = 0;
  int count_ = 0;
};

}  // namespace pgwake::client::abi
