#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "integration/rig.hpp"

namespace pgwake::test {

/// A program in tests/drivers, which is given the door's connection string. It prints `ready` when it listens
/// to `drivers`, `got PAYLOAD`, and `lost` when it was told that its connection has ended.
struct driver {
  enum class runs { usually, in_full, where_installed };
  const char* name;
  runs when;
  std::vector<std::string> probe;  ///< succeeds where it is installed
  std::vector<std::string> command;
};

const std::vector<driver>& all_drivers();
/// Libraries that take jobs from a database, which they are given as $DATABASE, and are woken through the
/// door.
const std::vector<driver>& job_libraries();
/// Those of them that run here and now. One that should, and is not installed, fails the test where it runs
/// in full, and is said to be skipped else.
std::vector<const driver*> chosen(const std::vector<driver>& from);
const driver& driver_named(std::string_view name);

class driver_client {
 public:
  driver_client(const driver& d, const std::string& door, const std::string& database = {});

  const char* name() const { return name_; }
  /// All that it has printed, by lines.
  std::vector<std::string> lines() const;
  std::vector<std::string> got() const;
  std::size_t ready() const { return count_of(child_.out(), "ready\n"); }
  std::string said() const;

 private:
  const char* name_;
  process child_;
};

}  // namespace pgwake::test
