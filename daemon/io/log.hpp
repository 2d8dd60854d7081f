#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "common/log_fields.hpp"
#include "daemon/io/log_line.hpp"
#include "daemon/io/log_writer.hpp"

namespace pgwaked {

// The daemon's log on stderr: one line an event. Never waits: a line that the reader does not take in time is
// dropped, counted, and said later.
class log {
 public:
  log(log_level level, log_format format);

  void trace(std::string_view event, const pgwake::log_fields& fields = {});
  void debug(std::string_view event, const pgwake::log_fields& fields = {});
  void info(std::string_view event, const pgwake::log_fields& fields = {});
  void warning(std::string_view event, const pgwake::log_fields& fields = {});
  void error(std::string_view event, const pgwake::log_fields& fields = {});
  void write(log_level level, std::string_view event, const pgwake::log_fields& fields);
  // Who did what to the hub: written at any level, even the one that was just asked for.
  void audit(std::string_view event, const pgwake::log_fields& fields);

  bool enabled(log_level level) const { return level >= level_; }
  void set_level(log_level level) { level_ = level; }
  std::uint64_t dropped() const { return out_.dropped(); }
  // Writes what waits; false: not within `patience`, and the process must end without destructors.
  bool close(std::chrono::milliseconds patience) { return out_.close(patience); }

 private:
  log_level level_;
  log_style style_;
  log_writer out_;
};

}  // namespace pgwaked
