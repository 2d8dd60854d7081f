#include "common/message_codec.hpp"

#include <rapidjson/document.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <new>

#include "common/base64.hpp"
#include "common/frame.hpp"
#include "common/json_text.hpp"
#include "common/unicode.hpp"

namespace pgwake {
namespace {

constexpr unsigned max_depth = 8;
constexpr const char* too_big = "not JSON that can be read: a number is too big";

// Throws when there is no memory. RapidJSON's own answers null, which RapidJSON then writes to.
class base_allocator {
 public:
  [[maybe_unused]] static const bool kNeedFree = true;
  void* Malloc(std::size_t size) { return size == 0 ? nullptr : ::operator new(size); }
  void* Realloc(void* old, std::size_t old_size, std::size_t size) {
    void* fresh = Malloc(size);
    if (old != nullptr && fresh != nullptr) std::memcpy(fresh, old, std::min(old_size, size));
    Free(old);
    return fresh;
  }
  static void Free(void* p) { ::operator delete(p); }
};
using allocator = rapidjson::MemoryPoolAllocator<base_allocator>;
using document = rapidjson::GenericDocument<rapidjson::UTF8<>, allocator, base_allocator>;
using json_reader = rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, base_allocator>;
using value = document::ValueType;

// Passes SAX events on to the document, refusing depth and lone surrogates (RapidJSON lets a lone
// low one pass).
class guard {
 public:
  guard(document& to, const rapidjson::MemoryStream& from, const char*& fault)
      : to_(to), from_(from), fault_(fault) {}
  bool Null() { return ends(), to_.Null(); }
  bool Bool(bool b) { return ends(), to_.Bool(b); }
  bool Int(int i) { return to_.Int(i); }
  bool Uint(unsigned i) { return to_.Uint(i); }
  bool Int64(std::int64_t i) { return to_.Int64(i); }
  bool Uint64(std::uint64_t i) { return to_.Uint64(i); }
  bool Double(double d) { return to_.Double(d); }
  // Numbers come as text: RapidJSON's own reading of them is inexact, or undefined for the likes of 0e300.
  bool RawNumber(const char* s, rapidjson::SizeType n, bool) {
    ends();
    const auto* end = s + n;
    if (std::uint64_t whole = 0; is_whole(s, end, whole)) return to_.Uint64(whole);
    if (std::int64_t whole = 0; is_whole(s, end, whole)) return to_.Int64(whole);
    double number = 0;
    if (std::from_chars(s, end, number).ec == std::errc::result_out_of_range) {
      if (std::string_view(s, n).find("e-") == std::string_view::npos &&
          std::string_view(s, n).find("E-") == std::string_view::npos) {
        fault_ = too_big;
        return false;
      }
      number = 0;
    }
    return to_.Double(number);
  }
  bool String(const char* s, rapidjson::SizeType n, bool copy) {
    ends();
    return text(s, n) && to_.String(s, n, copy);
  }
  bool Key(const char* s, rapidjson::SizeType n, bool copy) {
    if (depth_ == 1 && q_from_ == 0 && std::string_view(s, n) == "q") q_from_ = from_.Tell();
    return text(s, n) && to_.Key(s, n, copy);
  }
  bool StartObject() { return deeper() && to_.StartObject(); }
  bool EndObject(rapidjson::SizeType n) { return --depth_, ends(), to_.EndObject(n); }
  bool StartArray() { return deeper() && to_.StartArray(); }
  bool EndArray(rapidjson::SizeType n) { return --depth_, ends(), to_.EndArray(n); }

  // The value of the object's first `q` as it is written; empty if there is none.
  std::string_view q_in(std::string_view json) const {
    auto text = json.substr(q_from_, q_to_ - q_from_);
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n:"), text.size()));
    return text;
  }

 private:
  // A value has been read to its end.
  void ends() {
    if (depth_ == 1 && q_from_ != 0 && q_to_ == 0) q_to_ = from_.Tell();
  }
  template <typename Integer>
  static bool is_whole(const char* from, const char* to, Integer& out) {
    const auto [end, error] = std::from_chars(from, to, out);
    return error == std::errc{} && end == to;
  }
  bool deeper() {
    if (++depth_ <= max_depth) return true;
    fault_ = "JSON nested deeper than 8";
    return false;
  }
  bool text(const char* s, rapidjson::SizeType n) {
    if (is_utf8({s, n})) return true;
    fault_ = "a lone surrogate in a JSON string";
    return false;
  }

  document& to_;
  const rapidjson::MemoryStream& from_;
  const char*& fault_;
  unsigned depth_ = 0;
  std::size_t q_from_ = 0;
  std::size_t q_to_ = 0;
};

// Lets Document::Populate run the reader through the guard.
struct generator {
  std::string_view json;
  const char*& fault;
  bool& whole;
  std::string_view& q;
  bool operator()(document& to) const {
    rapidjson::MemoryStream stream(json.data(), json.size());
    json_reader reader;
    guard handler(to, stream, fault);
    const auto result = reader.Parse<rapidjson::kParseNumbersAsStringsFlag>(stream, handler);
    if (result.IsError()) {
      if (fault == nullptr)
        fault = result.Code() == rapidjson::kParseErrorNumberTooBig ? too_big : "not JSON";
      return false;
    }
    q = handler.q_in(json);
    whole = stream.Tell() == json.size();  // a NUL byte would end the stream early
    return true;
  }
};

const value* member(const document& doc, const char* name) {
  const auto it = doc.FindMember(name);
  return it == doc.MemberEnd() ? nullptr : &it->value;
}

// The frame as an object with a string `t`; false and `why` otherwise. `q`: that member as it is written.
bool parse(std::string_view json, document& doc, std::string_view& q, std::string& why) {
  if (!is_utf8(json)) {
    why = "the frame is not UTF-8";
    return false;
  }
  const char* fault = nullptr;
  bool whole = false;
  generator run{json, fault, whole, q};
  doc.Populate(run);
  if (fault == nullptr && !whole) fault = "not JSON";
  if (fault == nullptr && !doc.IsObject()) fault = "the frame is not a JSON object";
  if (fault == nullptr) {
    const auto* t = member(doc, "t");
    if (t == nullptr || !t->IsString()) fault = "the frame has no string `t`";
  }
  if (fault != nullptr) {
    why = fault;
    return false;
  }
  return true;
}

std::string_view view(const value& v) { return {v.GetString(), v.GetStringLength()}; }

// Readers of one member: false, and `why`, when it is there but of the wrong kind (or missing though needed).
class members {
 public:
  members(const document& doc, std::string_view q, std::string& why) : doc_(doc), q_(q), why_(why) {}

  bool need(const char* name, std::string& out) {
    const auto* v = member(doc_, name);
    if (v == nullptr || !v->IsString()) return fault(name, "a string");
    out = view(*v);
    return true;
  }
  bool maybe(const char* name, std::optional<std::string>& out) {
    const auto* v = member(doc_, name);
    if (v == nullptr || v->IsNull()) return true;
    if (!v->IsString()) return fault(name, "a string");
    out = view(*v);
    return true;
  }
  bool maybe(const char* name, std::string& out) {
    std::optional<std::string> text;
    if (!maybe(name, text)) return false;
    if (text) out = std::move(*text);
    return true;
  }
  bool need(const char* name, std::uint64_t& out) {
    const auto* v = member(doc_, name);
    if (v == nullptr || !v->IsUint64()) return fault(name, "a whole number of at least 0");
    out = v->GetUint64();
    return true;
  }
  bool maybe(const char* name, std::uint32_t& out) {
    const auto* v = member(doc_, name);
    if (v == nullptr) return true;
    if (!v->IsUint()) return fault(name, "a whole number of at least 0");
    out = v->GetUint();
    return true;
  }
  // A process ID as PostgreSQL has them.
  bool maybe_pid(const char* name, int& out) {
    const auto* v = member(doc_, name);
    if (v == nullptr) return true;
    if (!v->IsInt() || v->GetInt() < 0) return fault(name, "a whole number from 0 to 2147483647");
    out = v->GetInt();
    return true;
  }
  bool need(const char* name, bool& out) {
    const auto* v = member(doc_, name);
    if (v == nullptr || !v->IsBool()) return fault(name, "true or false");
    out = v->GetBool();
    return true;
  }
  bool maybe(const char* name, bool& out) { return member(doc_, name) == nullptr || need(name, out); }
  bool version(int& out) {
    std::uint64_t v = 0;
    if (!need("v", v)) return false;
    if (v == 0) return fault("v", "a protocol version of at least 1");
    out = static_cast<int>(std::min<std::uint64_t>(v, 1'000'000));
    return true;
  }
  bool name(wire_name& out) {
    const auto* v = member(doc_, "q");
    if (v != nullptr && v->IsString()) {
      out.text = view(*v);
      if (out.text.size() <= max_name_bytes) return true;
    } else {
      out.not_a_string = v == nullptr ? "null" : q_;
      if (out.not_a_string.size() <= max_name_bytes) return true;
    }
    why_ = "`q` has more than 1024 bytes";
    return false;
  }

  bool fault(const char* name, const char* wanted) {
    why_ = std::string("`") + name + "` must be " + wanted;
    return false;
  }

 private:
  const document& doc_;
  std::string_view q_;
  std::string& why_;
};

bool read(members& m, hello& out) {
  return m.version(out.v) && m.maybe("name", out.name) && m.maybe("db", out.db) &&
         m.maybe("operator", out.operates);
}

bool read(members& m, welcome& out) {
  return m.version(out.v) && m.maybe("hub", out.hub) && m.maybe("version", out.version) &&
         m.maybe("db", out.db) && m.maybe("system_id", out.system_id) &&
         m.maybe("heartbeat_ms", out.heartbeat_ms) && m.maybe("fence", out.fence);
}

bool read(members& m, nack& out) {
  std::string text;
  if (!m.name(out.q) || !m.maybe("code", text) || !m.maybe("reason", out.reason) ||
      !m.maybe("sqlstate", out.sqlstate))
    return false;
  out.why = code_from_string(text);
  return true;
}

bool read(members& m, wake& out) {
  std::optional<std::string> encoded;
  std::optional<std::string> gap;
  if (!m.need("q", out.q) || !m.maybe("p", out.payload) || !m.maybe("p64", encoded) || !m.maybe("gap", gap) ||
      !m.maybe_pid("by", out.by))
    return false;
  if (encoded) {
    out.payload = base64_decode(*encoded);
    if (!out.payload) return m.fault("p64", "base64");  // else an ephemeral wake would pass for a durable one
  }
  if (gap)
    out.gap = *gap == "hub_lost"   ? gap_cause::hub_lost
              : *gap == "overflow" ? gap_cause::overflow
                                   : gap_cause::reconnect;
  return true;
}

bool read(members& m, status& out) {
  return m.need("healthy", out.healthy) && m.maybe("draining", out.draining) &&
         m.maybe("grace_ms", out.grace_ms) && m.maybe("reason", out.reason) && m.maybe("full", out.full) &&
         m.maybe("slots", out.slots);
}

bool read(members& m, control_request& out) { return m.need("do", out.what) && m.maybe("arg", out.arg); }

bool read(members& m, control_answer& out) { return m.need("ok", out.ok) && m.maybe("text", out.text); }

bool read(members& m, pong& out) { return m.need("id", out.id); }

bool read(members& m, fence& out) { return m.need("id", out.id) && m.maybe_pid("by", out.by); }

bool read(members& m, bye& out) {
  std::string text;
  if (!m.maybe("code", text) || !m.maybe("reason", out.reason)) return false;
  out.why = code_from_string(text);
  return true;
}

template <typename Message, typename Variant>
bool read_into(members& m, Variant& out) {
  Message message;
  if (!read(m, message)) return false;
  out = std::move(message);
  return true;
}

// `text` off the front. A literal, so that comparing it takes no call.
template <std::size_t Size>
bool skip(std::string_view& json, const char (&text)[Size]) {
  if (json.size() < Size - 1 || __builtin_memcmp(json.data(), text, Size - 1) != 0) return false;
  json.remove_prefix(Size - 1);
  return true;
}

// Frames that come by the thousand are read without RapidJSON if they are just as this codec writes them.
// Whatever differs in a single byte, wrong or not, goes the long way.
template <std::size_t Size>
std::optional<std::string> quick_name(const std::string_view json, const char (&head)[Size]) {
  auto rest = json;
  std::string name;
  if (!skip(rest, head) || !take_json_string(rest, name) || rest != "}" || !is_utf8(json))
    return std::nullopt;
  return name;
}

bool quick_wake(const std::string_view json, wake& out) {
  auto rest = json;
  if (!skip(rest, R"({"t":"wake","q":)") || !take_json_string(rest, out.q) || !skip(rest, R"(,"p":)"))
    return false;
  if (!skip(rest, "null") && !take_json_string(rest, out.payload.emplace())) return false;
  if (skip(rest, R"(,"by":)")) {
    if (rest.empty() || rest[0] == '0' || rest[0] == '-') return false;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out.by);
    if (error != std::errc{}) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  return rest == "}" && is_utf8(json);
}

}  // namespace

bool decode(std::string_view json, from_worker& out, std::string& why) {
  if (auto q = quick_name(json, R"({"t":"sub","q":)"); q && q->size() <= max_name_bytes) {
    out = sub{wire_name{std::move(*q), ""}};
    return true;
  }
  std::array<char, 4096> memory;
  allocator pool(memory.data(), memory.size(), 16 * 1024);
  document doc(&pool, 256);
  std::string_view written;
  if (!parse(json, doc, written, why)) return false;
  const auto t = view(doc["t"]);
  members m(doc, written, why);
  out = unknown_message{std::string(t)};
  if (t == "sub" || t == "unsub") {
    wire_name q;
    if (!m.name(q)) return false;
    if (t == "sub")
      out = sub{std::move(q)};
    else
      out = unsub{std::move(q)};
    return true;
  }
  if (t == "hello") return read_into<hello>(m, out);
  if (t == "control") return read_into<control_request>(m, out);
  if (t == "ping") {
    ping p;
    if (!m.need("id", p.id)) return false;
    out = p;
    return true;
  }
  if (t == "stats") out = stats_request{};
  return true;
}

bool decode_plain_wake(std::string_view json, wake& out) {
  out = {};
  return quick_wake(json, out);
}

bool decode(std::string_view json, from_hub& out, std::string& why) {
  if (wake w; quick_wake(json, w)) {
    out = std::move(w);
    return true;
  }
  if (auto q = quick_name(json, R"({"t":"ack","q":)")) {
    out = ack{std::move(*q)};
    return true;
  }
  std::array<char, 4096> memory;
  allocator pool(memory.data(), memory.size(), 64 * 1024);
  document doc(&pool, 256);
  std::string_view written;
  if (!parse(json, doc, written, why)) return false;
  const auto t = view(doc["t"]);
  members m(doc, written, why);
  if (t == "wake") return read_into<wake>(m, out);
  if (t == "status") return read_into<status>(m, out);
  if (t == "ack") {
    ack a;
    if (!m.need("q", a.q)) return false;
    out = std::move(a);
    return true;
  }
  if (t == "nack") return read_into<nack>(m, out);
  if (t == "welcome") return read_into<welcome>(m, out);
  if (t == "bye") return read_into<bye>(m, out);
  if (t == "control") return read_into<control_answer>(m, out);
  if (t == "fence") return read_into<fence>(m, out);
  if (t == "pong") return read_into<pong>(m, out);
  if (t == "stats")
    out = stats{std::string(json)};
  else
    out = unknown_message{std::string(t)};
  return true;
}

}  // namespace pgwake
