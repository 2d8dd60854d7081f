#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace pgwaked {

// What `pgwaked listen` prints: one line for each event, for people or as a JSON object, without the newline.
class listen_output {
 public:
  explicit listen_output(bool json) : json_(json) {}

  // Empty where there is nothing new to say.
  std::string state(std::string_view source, bool healthy, std::string_view reason);
  // Who serves and why not well, for people.
  static std::string in_words(std::string_view source, bool healthy, std::string_view reason);
  std::string subscribed(std::string_view channel) const;
  // Something beside the events, for people.
  std::string note(std::string_view text) const;
  std::string refused(std::string_view channel, std::string_view reason) const;
  std::string wake(std::string_view channel, const std::optional<std::string_view>& payload,
                   std::string_view source, std::string_view gap) const;

  // Printed before each line for people; the time of day by default.
  std::string (*clock)() = nullptr;

 private:
  std::string line(std::string_view mark, std::string_view text) const;

  bool json_;
  std::string last_state_;
};

}  // namespace pgwaked
