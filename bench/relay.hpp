#pragma once

#include <sys/types.h>

#include <string>

#include "bench/receivers.hpp"

namespace pgwake::bench {

// The least that can stand between PostgreSQL and a receiver: a process of its own that blocks in poll, takes
// what libpq has and writes each notification to a socket. What it adds to a direct session no hub can save.
class bare_relay {
 public:
  bare_relay(const std::string& conninfo, const std::string& channel);
  ~bare_relay();
  bare_relay(const bare_relay&) = delete;
  bare_relay& operator=(const bare_relay&) = delete;

  void add_to(receivers& all);

 private:
  [[noreturn]] static void run(const std::string& conninfo, const std::string& channel, int out);

  pid_t pid_ = -1;
  int in_ = -1;
};

}  // namespace pgwake::bench
