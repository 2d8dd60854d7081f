#include <array>
#include <charconv>

#include "common/base64.hpp"
#include "common/frame.hpp"
#include "common/json_text.hpp"
#include "common/message_codec.hpp"
#include "common/unicode.hpp"

// The codec's writing half. By hand: RapidJSON's writer takes each character on its own.
namespace pgwake {
namespace {

// Whatever it is encoded in, what is written is UTF-8.
void append_text(std::string& out, std::string_view text) {
  if (is_utf8(text))
    append_json_string(out, text);
  else
    append_json_string(out, replace_bad_utf8(text));
}

// Writes one frame: reserves the header, closes the object and fills in the length when it goes.
class frame_writer {
 public:
  // `t` is one of ours and needs no escapes.
  frame_writer(std::string& out, std::string_view t) : out_(out), at_(out.size()) {
    static constexpr std::string_view head("\0\0\0\0{\"t\":\"", 10);
    static_assert(head.substr(frame_header, 2) == "{\"");
    out_.append(head);
    out_.append(t);
    out_ += '"';
  }
  ~frame_writer() {
    out_ += '}';
    put_frame_header(out_, at_, out_.size() - at_ - frame_header);
  }
  frame_writer(const frame_writer&) = delete;
  frame_writer& operator=(const frame_writer&) = delete;

  // Whatever the server's words were encoded in, the frame is UTF-8.
  void field(std::string_view name, std::string_view content) {
    out_ += ',';
    text(name, content);
  }
  void field(std::string_view name, const std::optional<std::string>& text) {
    if (text)
      field(name, std::string_view(*text));
    else
      null(name);
  }
  void field(std::string_view name, std::uint64_t number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    key(name);
    out_.append(digits.data(), end);
  }
  void flag(std::string_view name, bool on) {
    key(name);
    out_ += on ? "true" : "false";
  }
  void null(std::string_view name) {
    key(name);
    out_ += "null";
  }
  void field(std::string_view name, const wire_name& q) {
    if (q.is_string()) return field(name, std::string_view(q.text));
    key(name);
    out_ += q.not_a_string;
  }

 private:
  void text(std::string_view name, std::string_view content) {
    bare_key(name);
    append_text(out_, content);
  }
  void key(std::string_view name) {
    out_ += ',';
    bare_key(name);
  }
  // Names of members are ours and need no escapes.
  void bare_key(std::string_view name) {
    out_ += '"';
    out_ += name;
    out_ += "\":";
  }

  std::string& out_;
  std::size_t at_;
};

void write(std::string& out, const hello& m) {
  frame_writer w(out, "hello");
  w.field("v", static_cast<std::uint64_t>(m.v));
  if (m.name) w.field("name", std::string_view(*m.name));
  if (m.db) w.field("db", std::string_view(*m.db));
  if (m.operates) w.flag("operator", true);
}
void write(std::string& out, const sub& m) { frame_writer(out, "sub").field("q", m.q); }
void write(std::string& out, const unsub& m) { frame_writer(out, "unsub").field("q", m.q); }
void write(std::string& out, const ping& m) { frame_writer(out, "ping").field("id", m.id); }
void write(std::string& out, const stats_request&) { frame_writer(out, "stats"); }
void write(std::string& out, const control_request& m) {
  frame_writer w(out, "control");
  w.field("do", std::string_view(m.what));
  if (!m.arg.empty()) w.field("arg", std::string_view(m.arg));
}
void write(std::string& out, const unknown_message& m) {
  std::string t;
  append_json_string(t, is_utf8(m.t) ? m.t : replace_bad_utf8(m.t));
  frame_writer(out, std::string_view(t).substr(1, t.size() - 2));
}
void write(std::string& out, const welcome& m) {
  frame_writer w(out, "welcome");
  w.field("v", static_cast<std::uint64_t>(m.v));
  w.field("hub", std::string_view(m.hub));
  w.field("version", std::string_view(m.version));
  w.field("db", m.db);
  w.field("system_id", m.system_id);
  w.field("heartbeat_ms", std::uint64_t{m.heartbeat_ms});
  w.field("fence", std::string_view(m.fence));
}
void write(std::string& out, const ack& m) { frame_writer(out, "ack").field("q", std::string_view(m.q)); }
void write(std::string& out, const nack& m) {
  frame_writer w(out, "nack");
  w.field("q", m.q);
  w.field("code", to_string(m.why));
  w.field("reason", std::string_view(m.reason));
  if (!m.sqlstate.empty()) w.field("sqlstate", std::string_view(m.sqlstate));
}
void write(std::string& out, const wake& m) {
  wake_view v;
  v.q = m.q;
  if (m.payload) v.payload = *m.payload;
  v.by = m.by;
  v.gap = m.gap;
  encode(out, v);
}
void write(std::string& out, const status& m) {
  frame_writer w(out, "status");
  w.flag("healthy", m.healthy);
  if (m.draining) {
    w.flag("draining", true);
    w.field("grace_ms", std::uint64_t{m.grace_ms});
  }
  if (!m.reason.empty()) w.field("reason", std::string_view(m.reason));
  if (m.full) w.flag("full", true);
  if (m.slots > 0) w.field("slots", std::uint64_t{m.slots});
}
void write(std::string& out, const fence& m) {
  frame_writer w(out, "fence");
  w.field("id", m.id);
  if (m.by != 0) w.field("by", static_cast<std::uint64_t>(m.by));
}
void write(std::string& out, const pong& m) { frame_writer(out, "pong").field("id", m.id); }
void write(std::string& out, const stats& m) { append_frame(out, m.json); }
void write(std::string& out, const control_answer& m) {
  frame_writer w(out, "control");
  w.flag("ok", m.ok);
  w.field("text", std::string_view(m.text));
}
void write(std::string& out, const bye& m) {
  frame_writer w(out, "bye");
  w.field("code", to_string(m.why));
  w.field("reason", std::string_view(m.reason));
}

}  // namespace

std::string_view to_string(gap_cause cause) noexcept {
  switch (cause) {
    case gap_cause::none:
      return "none";
    case gap_cause::reconnect:
      return "reconnect";
    case gap_cause::hub_lost:
      return "hub_lost";
    case gap_cause::overflow:
      return "overflow";
  }
  return "none";
}

void encode(std::string& out, const from_worker& message) {
  std::visit([&](const auto& m) { write(out, m); }, message);
}

void encode(std::string& out, const from_hub& message) {
  std::visit([&](const auto& m) { write(out, m); }, message);
}

// Every notification comes this way: as few appends as can be.
void encode(std::string& out, const wake_view& wake) {
  static constexpr std::string_view head("\0\0\0\0{\"t\":\"wake\",\"q\":", 20);
  static_assert(head.substr(frame_header, 2) == "{\"" && head.back() == ':');
  const auto at = out.size();
  out.append(head);
  append_text(out, wake.q);
  if (!wake.payload) {
    out.append(R"(,"p":null)");
  } else if (is_utf8(*wake.payload)) {
    out.append(R"(,"p":)");
    append_json_string(out, *wake.payload);
  } else if (wake.plain) {
    out.append(R"(,"p":)");
    append_text(out, *wake.payload);
  } else {
    out.append(R"(,"p":null,"p64":)");
    append_json_string(out, base64_encode(*wake.payload));
  }
  if (!wake.plain && wake.by != 0) {
    std::array<char, 24> tail{',', '"', 'b', 'y', '"', ':'};
    const auto end = std::to_chars(tail.data() + 6, tail.data() + tail.size(), wake.by).ptr;
    out.append(tail.data(), end);
  }
  if (!wake.plain && wake.gap != gap_cause::none) {
    out.append(R"(,"gap":)");
    append_json_string(out, to_string(wake.gap));
  }
  out += '}';
  put_frame_header(out, at, out.size() - at - frame_header);
}

void encode_plain(std::string& out, const status& message) {
  frame_writer(out, "status").flag("healthy", message.healthy);
}

}  // namespace pgwake
