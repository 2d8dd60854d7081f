#include "daemon/operator/listen_output.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base64.hpp"
#include "common/unicode.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

class object {
 public:
  explicit object(std::string_view event) {
    writer_.StartObject();
    add("event", event);
  }
  object& add(const char* key, std::string_view text) {
    writer_.Key(key);
    const auto valid = pgwake::replace_bad_utf8(text);
    writer_.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
    return *this;
  }
  object& add_null(const char* key) {
    writer_.Key(key);
    writer_.Null();
    return *this;
  }
  std::string text() {
    writer_.EndObject();
    return printable_json({buffer_.GetString(), buffer_.GetSize()});
  }

 private:
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

}  // namespace

std::string listen_output::line(std::string_view mark, std::string_view text) const {
  std::string out = clock != nullptr ? clock() + " " : "";
  out += mark;
  out += ' ';
  return out += text;
}

std::string listen_output::in_words(std::string_view source, bool healthy, std::string_view reason) {
  std::string text = source == "hub"   ? "served by the hub"
                     : source == "own" ? "served by an own connection"
                                       : "served by nobody";
  if (!healthy) text += source == "none" ? "" : ", not yet well";
  if (!reason.empty()) text += ": " + printable(in_one_line(reason));
  return text;
}

std::string listen_output::state(std::string_view source, bool healthy, std::string_view reason) {
  if (json_) {
    object o("state");
    o.add("source", source);
    if (!reason.empty()) o.add("reason", in_one_line(reason));
    auto text = o.text();
    if (text == last_state_) return "";
    return last_state_ = std::move(text);
  }
  auto text = in_words(source, healthy, reason);
  if (text == last_state_) return "";
  last_state_ = text;
  return line("--", text);
}

std::string listen_output::subscribed(std::string_view channel) const {
  if (json_) return object("subscribed").add("channel", channel).text();
  return line("--", "subscribed to " + printable(channel));
}

std::string listen_output::note(std::string_view text) const { return line("--", printable(text)); }

std::string listen_output::refused(std::string_view channel, std::string_view reason) const {
  if (json_) return object("refused").add("channel", channel).add("reason", reason).text();
  return line("--", printable(channel) + " is refused: " + printable(in_one_line(reason)));
}

std::string listen_output::wake(std::string_view channel, const std::optional<std::string_view>& payload,
                                std::string_view source, std::string_view gap) const {
  if (!json_) {
    if (!gap.empty())
      return line("!!",
                  printable(channel) + "  gap: something may have been missed (" + std::string(gap) + ")");
    if (payload) return line("->", printable(channel) + "  " + printable(*payload));
    return line("->", printable(channel) + (source == "none" ? "  (a reminder)" : ""));
  }
  object o("wake");
  o.add("channel", channel);
  const bool text = payload && pgwake::is_utf8(*payload);
  if (text)
    o.add("payload", *payload);
  else
    o.add_null("payload");
  o.add("source", source);
  if (!gap.empty()) o.add("gap", gap);
  if (payload && !text) o.add("payload64", pgwake::base64_encode(*payload));
  return o.text();
}

}  // namespace pgwaked
