#pragma once

#include <string>
#include <string_view>

#include "common/log_fields.hpp"
#include "daemon/settings/settings.hpp"

namespace pgwaked {

// One line of the log, with its line break. Text is logfmt, `time=... level=... event="worker
// evicted" worker=7`; json is one object with the same members. In systemd's journal, which has its
// own clock and level, text begins with the priority (sd-daemon(3)) and `event`. Characters that
// steer a terminal are escaped.
struct log_style {
  log_format format = log_format::text;
  bool journal = false;
};
std::string log_line(const log_style& style, log_level level, std::string_view time, std::string_view event,
                     const pgwake::log_fields& fields);

}  // namespace pgwaked
