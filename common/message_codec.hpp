#pragma once

#include <string>
#include <string_view>

#include "common/message.hpp"

namespace pgwake {

// Decodes one frame's body. False when it is malformed (not UTF-8, not one JSON object, nested deeper than 8,
// no string `t`, a member of the wrong kind); `why` then says so in words fit for a `bye`.
// Where only a member is wrong, a worker's message is an unknown one all the same, with its `t`.
bool decode(std::string_view json, from_worker& out, std::string& why);
bool decode(std::string_view json, from_hub& out, std::string& why);

// The same for a wake that is written just as encode() writes it, without a detour; false for all else, which
// decode() must see. What it left in `out` then means nothing.
bool decode_plain_wake(std::string_view json, wake& out);

// Append one whole frame (header and JSON).
void encode(std::string& out, const from_worker& message);
void encode(std::string& out, const from_hub& message);

// The wake that routing sends; views, so that nothing is copied on the hot path. With `plain` only the
// members of dialect v0 are written: no `by`, no `gap`, U+FFFD for bytes that are not UTF-8.
struct wake_view {
  std::string_view q;
  std::optional<std::string_view> payload;
  int by = 0;
  gap_cause gap = gap_cause::none;
  bool plain = false;
};
void encode(std::string& out, const wake_view& wake);

// Status and nack of dialect v0: `healthy` alone; nack as in v1.
void encode_plain(std::string& out, const status& message);

}  // namespace pgwake
