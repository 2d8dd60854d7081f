#pragma once

#include <string>

namespace pgwake::bench {

struct machine {
  std::string text;  // one line for people
  std::string json;  // an object
};
// Processor, cores, memory, kernel, and the versions of what is compared (those that are installed).
machine describe_machine();

}  // namespace pgwake::bench
