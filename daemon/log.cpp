#include "daemon/log.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "common/unicode.hpp"
#include "daemon/terminal_text.hpp"

namespace pgwaked {
namespace {

// systemd sets JOURNAL_STREAM to the device and inode of the stream it connected (systemd.exec(5)).
bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat s {};
  if (stream == nullptr || fstat(STDERR_FILENO, &s) != 0) return false;
  return stream == std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino);
}

// Lines are read in terminals, and much of them others chose: names, channels, PostgreSQL's messages.
std::string one_line(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  for (const char c : text) {
    if (c == '\n')
      joined += "\\n";
    else
      joined += c;
  }
  return printable(joined);
}

spdlog::level::level_enum native(log_level level) {
  switch (level) {
    case log_level::trace:
      return spdlog::level::trace;
    case log_level::debug:
      return spdlog::level::debug;
    case log_level::info:
      return spdlog::level::info;
    case log_level::warning:
      return spdlog::level::warn;
    case log_level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// syslog(3): 3 error, 4 warning, 6 informational, 7 debug.
const char* journal_priority(log_level level) {
  switch (level) {
    case log_level::error:
      return "<3>";
    case log_level::warning:
      return "<4>";
    case log_level::info:
      return "<6>";
    case log_level::debug:
    case log_level::trace:
      return "<7>";
  }
  return "<6>";
}

const char* word(log_level level) {
  switch (level) {
    case log_level::error:
      return "error";
    case log_level::warning:
      return "warning";
    case log_level::info:
      return "info";
    case log_level::debug:
      return "debug";
    case log_level::trace:
      return "trace";
  }
  return "info";
}

std::string json_line(log_level level, std::string_view event, std::string_view fields) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> w(buffer);
  const auto text = [&](const char* key, std::string_view value) {
    const auto clean = pgwake::is_utf8(value) ? std::string(value) : pgwake::replace_bad_utf8(value);
    w.Key(key);
    w.String(clean.data(), static_cast<rapidjson::SizeType>(clean.size()));
  };
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  w.StartObject();
  w.Key("time");
  w.Double(static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000);
  text("level", word(level));
  text("event", event);
  if (!fields.empty()) text("fields", fields);
  w.EndObject();
  return printable_json({buffer.GetString(), buffer.GetSize()});
}

}  // namespace

log::log(log_level level, log_format format) : format_(format), journal_(stderr_is_journal()) {
  out_ = std::make_shared<spdlog::logger>("pgwaked", std::make_shared<spdlog::sinks::stderr_sink_st>());
  // The journal has its own clock; JSON its own members.
  out_->set_pattern(format == log_format::json || journal_ ? "%v" : "%Y-%m-%d %H:%M:%S.%e %l %v");
  out_->flush_on(spdlog::level::trace);
  set_level(level);
}

log::~log() = default;

void log::set_level(log_level level) { out_->set_level(native(level)); }

void log::write(log_level level, std::string_view event, std::string_view fields) {
  if (!out_->should_log(native(level))) return;
  std::string line = journal_ ? journal_priority(level) : "";
  if (format_ == log_format::json) {
    line += json_line(level, event, fields);
  } else {
    line += one_line(event);
    if (!fields.empty()) line += " " + one_line(fields);
  }
  out_->log(native(level), "{}", line);
}

void log::debug(std::string_view event, std::string_view fields) { write(log_level::debug, event, fields); }
void log::info(std::string_view event, std::string_view fields) { write(log_level::info, event, fields); }
void log::warning(std::string_view event, std::string_view fields) {
  write(log_level::warning, event, fields);
}
void log::error(std::string_view event, std::string_view fields) { write(log_level::error, event, fields); }

}  // namespace pgwaked
