#pragma once

#include <memory>
#include <string_view>

#include "daemon/settings.hpp"

namespace spdlog {
class logger;
}

namespace pgwaked {

// The daemon's log on stderr: one line an event, `event key=value ...`. Control characters are escaped, so
// that a name cannot forge a line; nor a field, since whoever logs one quotes it with log_field(). Under
// systemd's journal each line carries its priority; `json` prints one object a line.
class log {
 public:
  log(log_level level, log_format format);
  ~log();
  log(const log&) = delete;
  log& operator=(const log&) = delete;

  void debug(std::string_view event, std::string_view fields = {});
  void info(std::string_view event, std::string_view fields = {});
  void warning(std::string_view event, std::string_view fields = {});
  void error(std::string_view event, std::string_view fields = {});
  void set_level(log_level level);

 private:
  void write(log_level level, std::string_view event, std::string_view fields);

  std::shared_ptr<spdlog::logger> out_;
  log_format format_;
  bool journal_;
};

}  // namespace pgwaked
