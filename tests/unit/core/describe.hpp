#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/frame.hpp"
#include "common/message_codec.hpp"
#include "daemon/core/outbox.hpp"

namespace pgwake::test {

// A message from the hub in a few words: "ack c", "wake c", "wake c =payload by 7", "gap c reconnect",
// "status healthy", "nack c forbidden". Tests and traces speak it.
inline std::string describe(const from_hub& message) {
  return std::visit(
      [](const auto& m) -> std::string {
        using kind = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<kind, welcome>) {
          return "welcome v" + std::to_string(m.v) + (m.db ? " " + *m.db : "");
        } else if constexpr (std::is_same_v<kind, ack>) {
          return "ack " + m.q;
        } else if constexpr (std::is_same_v<kind, nack>) {
          return "nack " + (m.q.is_string() ? m.q.text : m.q.not_a_string) + " " +
                 std::string(to_string(m.why)) + (m.sqlstate.empty() ? "" : " " + m.sqlstate);
        } else if constexpr (std::is_same_v<kind, wake>) {
          if (m.gap != gap_cause::none) return "gap " + m.q + " " + std::string(to_string(m.gap));
          return "wake " + m.q + (m.payload ? " =" + *m.payload : "") +
                 (m.by != 0 ? " by " + std::to_string(m.by) : "");
        } else if constexpr (std::is_same_v<kind, status>) {
          return std::string("status ") + (m.healthy ? "healthy" : "unhealthy") +
                 (m.reason.empty() ? "" : " " + m.reason) + (m.draining ? " draining" : "") +
                 (m.full ? " full" : "") + (m.slots > 0 ? " of " + std::to_string(m.slots) : "");
        } else if constexpr (std::is_same_v<kind, fence>) {
          return "fence " + std::to_string(m.id) + (m.by != 0 ? " by " + std::to_string(m.by) : "");
        } else if constexpr (std::is_same_v<kind, pong>) {
          return "pong " + std::to_string(m.id);
        } else if constexpr (std::is_same_v<kind, stats>) {
          return "stats";
        } else if constexpr (std::is_same_v<kind, control_answer>) {
          return std::string("control ") + (m.ok ? "done" : "refused") + ": " + m.text;
        } else if constexpr (std::is_same_v<kind, bye>) {
          return "bye " + std::string(to_string(m.why));
        } else {
          return "unknown " + m.t;
        }
      },
      message);
}

// The frames in a stream of bytes, described; "MALFORMED why" where decoding failed.
inline std::vector<std::string> describe_stream(std::string_view bytes) {
  std::vector<std::string> out;
  frame_reader reader(max_frame_from_hub);
  reader.append(bytes);
  std::string_view body;
  frame_reader::outcome outcome;
  while ((outcome = reader.next(body)) == frame_reader::outcome::frame) {
    from_hub message;
    std::string why;
    out.push_back(decode(body, message, why) ? describe(message) : "MALFORMED " + why);
  }
  if (outcome != frame_reader::outcome::need_more) out.emplace_back("BROKEN STREAM");
  if (reader.mid_frame()) out.emplace_back("(part of a frame)");
  return out;
}

// All that waits in an outbox, as bytes, without taking it.
inline std::string waiting_bytes(const pgwaked::outbox& box) {
  std::vector<std::string_view> pieces;
  box.gather(pieces, SIZE_MAX, SIZE_MAX);
  std::string out;
  for (const auto p : pieces) out += p;
  return out;
}

// A frame as a worker would send it.
inline std::string framed(std::string_view json) {
  std::string out;
  append_frame(out, json);
  return out;
}

}  // namespace pgwake::test
