#include "bench/gate.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace pgwake::bench {
namespace {

constexpr double patience = 40;  // seconds
constexpr std::chrono::milliseconds yield_for{300};

}  // namespace

gate::gate(const std::string& path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd_ < 0) throw std::runtime_error("cannot open the lock file " + path);
}

gate::~gate() {
  if (fd_ >= 0) close(fd_);
}

void gate::enter() {
  if (fd_ < 0) return;
  if (held_ && since(since_) < patience) return;
  if (held_) {
    flock(fd_, LOCK_UN);
    std::this_thread::sleep_for(yield_for);  // whoever waits for it gets it
  }
  while (flock(fd_, LOCK_EX) != 0) {
  }
  held_ = true;
  since_ = steady::now();
}

void gate::leave() {
  if (fd_ < 0 || !held_) return;
  flock(fd_, LOCK_UN);
  held_ = false;
}

}  // namespace pgwake::bench
