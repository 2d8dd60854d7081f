#include "daemon/io/log.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace pgwaked {
namespace {

// systemd sets JOURNAL_STREAM to the device and inode of the stream it connected (systemd.exec(5)).
bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat s {};
  if (stream == nullptr || fstat(STDERR_FILENO, &s) != 0) return false;
  return stream == std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino);
}

// RFC 3339, in local time with its zone.
std::string time_of_day() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 32> day{};
  std::array<char, 8> zone{};
  std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &local);
  std::strftime(zone.data(), zone.size(), "%z", &local);
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%s.%03ld%.3s:%s", day.data(), now.tv_nsec / 1'000'000, zone.data(),
                zone.data() + 3);
  return out.data();
}

}  // namespace

log::log(log_level level, log_format format)
    : level_(level),
      style_{format, stderr_is_journal()},
      out_(STDERR_FILENO, [style = style_](std::uint64_t lines, std::uint64_t total) {
        return log_line(style, log_level::warning, time_of_day(), "log lines dropped",
                        pgwake::log_fields().add("lines", lines).add("total", total));
      }) {
  tzset();
}

void log::write(log_level level, std::string_view event, const pgwake::log_fields& fields) {
  if (enabled(level)) out_.write(log_line(style_, level, time_of_day(), event, fields));
}

void log::audit(std::string_view event, const pgwake::log_fields& fields) {
  out_.write(log_line(style_, log_level::info, time_of_day(), event, fields));
}

void log::trace(std::string_view event, const pgwake::log_fields& fields) {
  write(log_level::trace, event, fields);
}
void log::debug(std::string_view event, const pgwake::log_fields& fields) {
  write(log_level::debug, event, fields);
}
void log::info(std::string_view event, const pgwake::log_fields& fields) {
  write(log_level::info, event, fields);
}
void log::warning(std::string_view event, const pgwake::log_fields& fields) {
  write(log_level::warning, event, fields);
}
void log::error(std::string_view event, const pgwake::log_fields& fields) {
  write(log_level::error, event, fields);
}

}  // namespace pgwaked
