#include "daemon/io/log_line.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/unicode.hpp"
#include "daemon/settings/option_value.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

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

std::string json_object(log_level level, std::string_view time, std::string_view event,
                        const pgwake::log_fields& fields) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> w(buffer);
  const auto size = [](std::string_view text) { return static_cast<rapidjson::SizeType>(text.size()); };
  const auto text = [&](std::string_view key, std::string_view value) {
    const auto clean = pgwake::is_utf8(value) ? std::string(value) : pgwake::replace_bad_utf8(value);
    w.Key(key.data(), size(key));
    w.String(clean.data(), size(clean));
  };
  w.StartObject();
  text("time", time);
  text("level", to_string(level));
  text("event", event);
  for (const auto& f : fields.list()) {
    if (!f.bare) {
      text(f.key, f.value);
      continue;
    }
    w.Key(f.key.data(), size(f.key));
    w.RawValue(f.value.data(), f.value.size(), rapidjson::kNumberType);
  }
  w.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string logfmt(log_level level, std::string_view time, std::string_view event, bool journal,
                   const pgwake::log_fields& fields) {
  std::string out;
  if (!journal) {
    pgwake::append_logfmt(out, "time", time);
    pgwake::append_logfmt(out, "level", to_string(level));
  }
  pgwake::append_logfmt(out, "event", event);
  for (const auto& f : fields.list()) pgwake::append_logfmt(out, f.key, f.value);
  return out;
}

}  // namespace

std::string log_line(const log_style& style, log_level level, std::string_view time, std::string_view event,
                     const pgwake::log_fields& fields) {
  const auto line = style.format == log_format::json ? json_object(level, time, event, fields)
                                                     : logfmt(level, time, event, style.journal, fields);
  // Whatever needs an escape stands inside a quoted value, where both formats know JSON's.
  return (style.journal ? journal_priority(level) : "") + printable_json(line) + "\n";
}

}  // namespace pgwaked
