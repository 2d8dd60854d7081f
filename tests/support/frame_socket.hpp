#pragma once

#include <rapidjson/document.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pgwake::test {

/// 4 bytes of big-endian length, then the text.
std::string frame_of(std::string_view text);
/// A JSON string, with its quotes.
std::string json_string(std::string_view text);

/// A connected stream socket, close-on-exec. Throws std::runtime_error with the reason.
int connect_unix(const std::string& path);
bool can_connect(const std::string& path);

/// A frame from the hub. Members that are missing or of another type read as empty, 0 or false.
struct frame {
  explicit frame(std::string raw);

  std::string text;
  rapidjson::Document doc;

  std::string string(const char* member) const;
  std::optional<std::string> optional_string(const char* member) const;
  std::int64_t number(const char* member) const;
  bool flag(const char* member) const;
  bool has(const char* member) const { return doc.HasMember(member); }

  std::string t() const { return string("t"); }
  std::string q() const { return string("q"); }
  std::optional<std::string> p() const { return optional_string("p"); }  ///< nothing: null or missing
  std::optional<std::string> gap() const { return optional_string("gap"); }
  std::string code() const { return string("code"); }
  std::int64_t by() const { return number("by"); }
  std::int64_t id() const { return number("id"); }
  bool healthy() const { return flag("healthy"); }
};

/// Cuts a stream into frames.
class frame_reader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  std::optional<std::string> next();
  std::size_t pending() const { return buffer_.size() - begin_; }  ///< bytes of an unfinished frame

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace pgwake::test
