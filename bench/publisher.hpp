#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/receivers.hpp"

namespace pgwake::bench {

// Publishes one notification after another, each when the last receiver has the one before.
class publisher {
 public:
  publisher(const std::string& conninfo, std::string channel);
  ~publisher();
  publisher(const publisher&) = delete;
  publisher& operator=(const publisher&) = delete;

  // p50 and p99 of NOTIFY to the last receiver, in microseconds.
  std::vector<double> run(receivers& all);
  // Each notification's time to the last receiver, in microseconds, as long as `more` says so of their number.
  std::vector<double> samples(receivers& all, const std::function<bool(std::size_t)>& more);

 private:
  PGconn* conn_;
  std::string channel_;
};

}  // namespace pgwake::bench
