#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/os/unique_fd.hpp"

namespace pgwake::client {

// How many own connections a host may have where nobody has said: a quarter of what the server has for
// ordinary roles, or a few where that is not known (0).
constexpr std::uint64_t default_slots(std::uint64_t server_has) {
  if (server_has == 0) return 8;
  return server_has < 4 ? 1 : server_has / 4;
}

// At most so many own connections at one time on this host (C11): whoever holds the lock on one of the files
// slot-0, slot-1, ... may have one. The kernel frees it when the process dies.
//
// The files are in `directory`, if that is such that no stranger can lock them: it belongs to root or to
// this user, and not everybody may write to it. Where it is not, or may not be used, slots are counted by
// user, in `directory`-UID.
class slots {
 public:
  explicit slots(std::string directory) : directory_(std::move(directory)) {}

  enum class outcome { granted, in_use, impossible };
  // Unless granted, `trouble` says why not. A slot that is held stays held.
  outcome acquire(std::uint64_t limit, std::uint64_t random, std::string& trouble);
  void release() { held_.reset(); }
  int held() const { return held_.get(); }
  void abandon() { static_cast<void>(held_.release()); }

 private:
  std::string directory_;
  unique_fd held_;
};

}  // namespace pgwake::client
