#pragma once

#include <string>

#include "bench/stats.hpp"

namespace pgwake::bench {

// Keeps builds and the like, which take the same lock file, off the machine while something is measured.
// Without a path it does nothing.
class gate {
 public:
  explicit gate(const std::string& path);
  ~gate();
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  // Holds it from here on. A holder for longer than `patience` seconds lets others in between.
  void enter();
  void leave();

 private:
  int fd_ = -1;
  bool held_ = false;
  steady::time_point since_;
};

// Holds the gate for a scope.
class measuring {
 public:
  explicit measuring(gate& g) : gate_(g) { gate_.enter(); }
  ~measuring() { gate_.leave(); }
  measuring(const measuring&) = delete;
  measuring& operator=(const measuring&) = delete;

 private:
  gate& gate_;
};

}  // namespace pgwake::bench
