#pragma once

#include <cstdint>
#include <string>

#include "client/src/descriptor.hpp"

namespace pgwake::client {

// At most `limit` own connections at one time on this host (C11): whoever holds the lock on one of the files
// slot-0, slot-1, ... may have one. The kernel frees it when the process dies.
class slots {
 public:
  slots(std::string directory, std::uint64_t limit) : directory_(std::move(directory)), limit_(limit) {}

  // False: none is free, and `trouble` says so, or why there can be none.
  bool acquire(std::uint64_t random, std::string& trouble);
  void release() { held_.reset(); }
  int held() const { return held_.get(); }
  void abandon() { static_cast<void>(held_.release()); }

 private:
  std::string directory_;
  std::uint64_t limit_;
  descriptor held_;
};

}  // namespace pgwake::client
