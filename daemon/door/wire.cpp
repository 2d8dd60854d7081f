#include "daemon/door/wire.hpp"

namespace pgwaked::door {
namespace {

void put_int16(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value >> 8U);
  out += static_cast<char>(value);
}

void put_int32(std::string& out, std::uint32_t value) {
  put_int16(out, value >> 16U);
  put_int16(out, value & 0xFFFFU);
}

void put_text(std::string& out, std::string_view text) {
  out += text.substr(0, text.find('\0'));
  out += '\0';
}

// Begins a message, and writes its length when it goes.
class envelope {
 public:
  envelope(std::string& out, char type) : out_(out), at_(out.size() + 1) {
    out_ += type;
    put_int32(out_, 0);
  }
  envelope(const envelope&) = delete;
  envelope& operator=(const envelope&) = delete;
  ~envelope() {
    const auto size = static_cast<std::uint32_t>(out_.size() - at_);
    for (std::size_t i = 0; i < 4; ++i) out_[at_ + i] = static_cast<char>(size >> (24 - 8 * i));
  }

 private:
  std::string& out_;
  std::size_t at_;
};

void put_field(std::string& out, char code, std::string_view value) {
  if (value.empty()) return;
  out += code;
  put_text(out, value);
}

void put_report(std::string& out, char type, std::string_view severity, const sql_error& e) {
  const envelope m(out, type);
  put_field(out, 'S', severity);
  put_field(out, 'V', severity);
  put_field(out, 'C', e.sqlstate);
  put_field(out, 'M', e.message);
  put_field(out, 'H', e.hint);
  out += '\0';
}

}  // namespace

std::int16_t type_size(type_oid type) {
  switch (type) {
    case type_oid::boolean:
      return 1;
    case type_oid::int8:
      return 8;
    case type_oid::int4:
    case type_oid::oid:
    case type_oid::void_:
      return 4;
    case type_oid::name:
      return 64;
    case type_oid::text:
    case type_oid::numeric:
      return -1;
  }
  return -1;
}

client_reader::outcome client_reader::next(message& out) {
  if (begin_ > 0 && (begin_ == in_.size() || begin_ > max_client_message)) {
    in_.erase(0, begin_);
    begin_ = 0;
  }
  const auto rest = std::string_view(in_).substr(begin_);
  const std::size_t head = startup_ ? 0 : 1;
  if (rest.size() < head + 4) return outcome::need_more;
  const auto length = static_cast<std::uint32_t>(body_reader(rest.substr(head)).int32());
  // The length is looked at before anything is kept for it.
  if (length < (startup_ ? 8U : 4U) || length > (startup_ ? max_startup : max_client_message))
    return outcome::malformed;
  if (rest.size() < head + length) return outcome::need_more;
  out = {startup_ ? '\0' : rest[0], rest.substr(head + 4, length - 4)};
  begin_ += head + length;
  return outcome::message;
}

void client_reader::clear() {
  in_.clear();
  in_.shrink_to_fit();
  begin_ = 0;
}

std::uint32_t body_reader::number(std::size_t count) {
  std::uint32_t value = 0;
  for (const char c : bytes(count)) value = value << 8U | static_cast<unsigned char>(c);
  return value;
}

std::uint8_t body_reader::byte() { return static_cast<std::uint8_t>(number(1)); }
std::int16_t body_reader::int16() { return static_cast<std::int16_t>(number(2)); }
std::int32_t body_reader::int32() { return static_cast<std::int32_t>(number(4)); }

std::string_view body_reader::text() {
  const auto end = rest_.find('\0');
  if (end == std::string_view::npos) {
    bad_ = true;
    return {};
  }
  const auto found = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return found;
}

std::string_view body_reader::bytes(std::size_t count) {
  if (bad_ || count > rest_.size()) {
    bad_ = true;
    return {};
  }
  const auto found = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return found;
}

void put_authentication_ok(std::string& out) {
  const envelope m(out, 'R');
  put_int32(out, 0);
}

void put_parameter(std::string& out, std::string_view name, std::string_view value) {
  const envelope m(out, 'S');
  put_text(out, name);
  put_text(out, value);
}

void put_key(std::string& out, std::uint32_t pid, std::string_view secret) {
  const envelope m(out, 'K');
  put_int32(out, pid);
  out += secret;
}

void put_negotiation(std::string& out, std::uint32_t newest_minor, const std::vector<std::string>& unknown) {
  const envelope m(out, 'v');
  put_int32(out, newest_minor);
  put_int32(out, static_cast<std::uint32_t>(unknown.size()));
  for (const auto& name : unknown) put_text(out, name);
}

void put_ready(std::string& out, transaction_state state) {
  const envelope m(out, 'Z');
  out += static_cast<char>(state);
}

void put_error(std::string& out, std::string_view severity, const sql_error& error) {
  put_report(out, 'E', severity, error);
}

void put_notice(std::string& out, std::string_view severity, const sql_error& notice) {
  put_report(out, 'N', severity, notice);
}

void put_complete(std::string& out, std::string_view tag) {
  const envelope m(out, 'C');
  put_text(out, tag);
}

void put_columns(std::string& out, const std::vector<column>& columns) {
  const envelope m(out, 'T');
  put_int16(out, static_cast<std::uint32_t>(columns.size()));
  for (const auto& c : columns) {
    put_text(out, c.name);
    put_int32(out, 0);  // no table
    put_int16(out, 0);  // and no column of it
    put_int32(out, static_cast<std::uint32_t>(c.type));
    put_int16(out, static_cast<std::uint16_t>(type_size(c.type)));
    put_int32(out, 0xFFFFFFFFU);  // no modifier
    put_int16(out, c.binary ? 1 : 0);
  }
}

void put_row(std::string& out, const row& values) {
  const envelope m(out, 'D');
  put_int16(out, static_cast<std::uint32_t>(values.size()));
  for (const auto& v : values) {
    put_int32(out, v ? static_cast<std::uint32_t>(v->size()) : 0xFFFFFFFFU);
    if (v) out += *v;
  }
}

void put_parameter_types(std::string& out, const std::vector<std::uint32_t>& types) {
  const envelope m(out, 't');
  put_int16(out, static_cast<std::uint32_t>(types.size()));
  for (const auto t : types) put_int32(out, t);
}

void put_notification(std::string& out, std::uint32_t pid, std::string_view channel,
                      std::string_view payload) {
  const envelope m(out, 'A');
  put_int32(out, pid);
  put_text(out, channel);
  put_text(out, payload);
}

void put_bare(std::string& out, char type) { const envelope m(out, type); }

}  // namespace pgwaked::door
