#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <string>
#include <vector>

#include "support/eventually.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace pgwake::test {

/// A headless Chromium with a profile of its own, driven by its debugging pipe (Chrome DevTools Protocol:
/// JSON texts that end in a NUL byte, commands to its descriptor 3, answers and events from 4). What it
/// refuses is a std::runtime_error.
class browser {
 public:
  browser();

  static bool installed();

  /// A page of this size, in light or dark colours.
  void size(int width, int height);
  void dark(bool yes);
  void open(const std::string& url);
  /// The value of a JavaScript expression, as text.
  std::string evaluate(const std::string& expression);
  bool eventually(const std::string& condition, milliseconds patience);
  /// The whole page as a PNG.
  void screenshot(const std::string& path);

  /// Addresses asked for since open(), in order; data: ones left out.
  const std::vector<std::string>& requests() const { return requests_; }
  /// Exceptions, console errors and refused resources since open().
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  rapidjson::Document call(const std::string& method, const std::string& parameters = "{}");
  void note(const rapidjson::Document& event);
  std::string receive(clock::time_point deadline);

  temp_dir home_;
  int to_ = -1;
  int from_ = -1;
  std::optional<process> process_;
  std::string session_;
  std::string unread_;
  int last_id_ = 0;
  std::vector<std::string> requests_;
  std::vector<std::string> complaints_;
};

/// A JSON string.
std::string json_quoted(const std::string& text);

}  // namespace pgwake::test
