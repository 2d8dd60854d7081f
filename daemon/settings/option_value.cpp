#include "daemon/settings/option_value.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/channel.hpp"
#include "common/redact.hpp"
#include "common/unicode.hpp"
#include "daemon/settings/toml.hpp"
#include "daemon/settings/units.hpp"

namespace pgwaked {
namespace {

// sizeof(sockaddr_un::sun_path) on Linux, less the NUL at its end.
constexpr std::size_t max_socket_path = 107;
constexpr std::size_t max_application_name = 63;

constexpr auto levels = std::to_array<std::string_view>({"trace", "debug", "info", "warning", "error"});
constexpr auto formats = std::to_array<std::string_view>({"text", "json"});

using reason = std::optional<std::string>;

// Quoted and escaped: one line of UTF-8, whatever the environment holds.
std::string quoted(std::string_view text) {
  return toml::quote(pgwake::replace_bad_utf8(without_secrets(text)));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string in_unit(const option& which, std::uint64_t value) {
  if (which.kind == option_kind::duration) {
    return format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(value)));
  }
  return which.kind == option_kind::size ? format_size(value) : std::to_string(value);
}

reason check_bounds(const option& which, std::string_view text, std::uint64_t value) {
  if (value >= which.min && (which.max == 0 || value <= which.max)) return std::nullopt;
  std::string out = quoted(text) + " is out of bounds; it takes " + in_unit(which, which.min) + " to " +
                    in_unit(which, which.max);
  if (!which.why.empty()) out += " (" + std::string(which.why) + ")";
  return out;
}

std::string not_a(std::string_view text, std::string_view what, std::string_view why) {
  return quoted(text) + " is no " + std::string(what) + ": " + std::string(why);
}

reason assign_text(const option& which, const std::string& text, const name_resolver& names, settings& into) {
  if (text.find('\0') != text.npos) return "the value holds a NUL byte";
  if (which.name == "socket") {
    if (text.empty()) return "the path is empty; write a path of at most 107 bytes";
    if (text.size() > max_socket_path) {
      return quoted(text) + " has " + std::to_string(text.size()) +
             " bytes; a Unix socket's path takes at most 107";
    }
    if (text[0] == '@')
      return quoted(text) + " is an abstract socket, which has no owner and no mode; write a path";
  }
  if (which.name == "queue_template" && !pgwake::queue_template::parse(text)) {
    return quoted(text) + " is no template; it takes exactly one {}, such as pgmq.q_{}.INSERT, or {} alone";
  }
  if (which.name == "application_name" &&
      (text.size() > max_application_name || !pgwake::is_printable_ascii(text))) {
    return quoted(text) + " is no application name; it takes at most 63 printable ASCII characters (" +
           std::string(which.why) + ")";
  }
  if (which.name == "socket_group") {
    std::optional<std::uint32_t> gid;
    if (!text.empty()) {
      std::uint32_t number = 0;
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
      // -1 is the kernel's "no change": chown would take it and do nothing.
      if (code == std::errc{} && end == text.data() + text.size() && number != UINT32_MAX) gid = number;
      if (!gid) gid = names.group_id(text);
      if (!gid) return "there is no group " + quoted(text) + " on this host; write the name or number of one";
    }
    into.socket_gid = gid;
  }
  into.*std::get<std::string settings::*>(which.field) = text;
  return std::nullopt;
}

reason assign_number(const option& which, const std::string& text, settings& into) {
  const bool is_size = which.kind == option_kind::size;
  const auto number = is_size ? parse_size(text) : parse_count(text);
  if (!number) return not_a(text, is_size ? "size" : "number", number.error().reason);
  if (auto wrong = check_bounds(which, text, *number)) return wrong;
  into.*std::get<std::uint64_t settings::*>(which.field) = *number;
  return std::nullopt;
}

reason assign_duration(const option& which, const std::string& text, settings& into) {
  const auto duration = parse_duration(text);
  if (!duration) return not_a(text, "duration", duration.error().reason);
  if (auto wrong = check_bounds(which, text, static_cast<std::uint64_t>(duration->count()))) return wrong;
  if (which.name == "connect_timeout" && duration->count() % 1000 != 0) {
    return quoted(text) + " is no whole number of seconds, such as 5s (" + std::string(which.why) + ")";
  }
  into.*std::get<std::chrono::milliseconds settings::*>(which.field) = *duration;
  return std::nullopt;
}

reason assign_mode(const option& which, const std::string& text, settings& into) {
  std::string_view digits = text;
  if (digits.substr(0, 2) == "0o") digits.remove_prefix(2);
  unsigned mode = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), mode, 8);
  if (code != std::errc{} || end != digits.data() + digits.size() || mode > which.max) {
    return not_a(text, "socket mode", "write octal permissions from 0 to 0777, such as 0660");
  }
  into.*std::get<unsigned settings::*>(which.field) = mode;
  return std::nullopt;
}

reason assign_boolean(const option& which, const std::string& text, settings& into) {
  constexpr auto yes = std::to_array<std::string_view>({"true", "on", "yes", "1"});
  constexpr auto no = std::to_array<std::string_view>({"false", "off", "no", "0"});
  const bool on = std::find(yes.begin(), yes.end(), text) != yes.end();
  if (!on && std::find(no.begin(), no.end(), text) == no.end())
    return not_a(text, "switch", "write true or false");
  into.*std::get<bool settings::*>(which.field) = on;
  return std::nullopt;
}

template <std::size_t N>
std::string one_of(const std::array<std::string_view, N>& words) {
  std::string list;
  for (std::size_t i = 0; i < N; ++i) {
    if (i > 0) list += i + 1 == N ? " or " : ", ";
    list += words[i];
  }
  return list;
}

template <typename Enum, std::size_t N>
reason assign_word(const option& which, const std::string& text, const std::array<std::string_view, N>& words,
                   settings& into) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) {
    return not_a(text, which.name, "write " + one_of(words));
  }
  into.*std::get<Enum settings::*>(which.field) = static_cast<Enum>(found - words.begin());
  return std::nullopt;
}

reason assign_list(const option& which, const std::vector<std::string>& texts, const name_resolver& names,
                   settings& into) {
  std::vector<allow_rule> rules;
  for (const std::string& text : texts) {
    auto rule = parse_allow_rule(text, names);
    if (!rule) return rule.error().reason;
    rules.push_back(*std::move(rule));
  }
  into.*std::get<std::vector<allow_rule> settings::*>(which.field) = std::move(rules);
  return std::nullopt;
}

constexpr std::string_view who_form = "write uid:33, gid:33, user:www-data, group:www-data or *";

boost::system::result<allow_rule, value_error> parse_who(std::string_view who, const name_resolver& names) {
  allow_rule rule;
  if (who == "*") return rule;
  const std::size_t colon = who.find(':');
  const std::string_view kind = who.substr(0, colon);
  const std::string name(colon == who.npos ? std::string_view{} : who.substr(colon + 1));
  const auto fail = [&](std::string_view why) { return value_error{quoted(who) + std::string(why)}; };
  if (name.empty()) return fail(" names nobody; " + std::string(who_form));
  if (kind == "uid" || kind == "gid") {
    rule.kind = kind == "uid" ? allow_rule::who::uid : allow_rule::who::gid;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), rule.id);
    // -1 is the kernel's "no id".
    if (code != std::errc{} || end != name.data() + name.size() || rule.id == UINT32_MAX) {
      return fail(" has no number; " + std::string(who_form));
    }
    return rule;
  }
  if (kind == "user" || kind == "group") {
    const bool user = kind == "user";
    rule.kind = user ? allow_rule::who::uid : allow_rule::who::gid;
    const auto id = user ? names.user_id(name) : names.group_id(name);
    if (!id)
      return fail(user ? ": there is no such user on this host" : ": there is no such group on this host");
    rule.id = *id;
    return rule;
  }
  return fail(" names nobody; " + std::string(who_form));
}

}  // namespace

std::string without_secrets(std::string_view text) {
  const bool like_conninfo = text.find("://") != text.npos || pgwake::has_stray_password(text);
  return like_conninfo ? pgwake::hide_in_value(text) : std::string(text);
}

std::optional<std::string> assign(const option& which, const std::vector<std::string>& texts,
                                  const name_resolver& names, settings& into) {
  if (which.kind == option_kind::list) return assign_list(which, texts, names, into);
  if (texts.size() != 1) return "it takes one value";
  const std::string& text = texts.front();
  switch (which.kind) {
    case option_kind::duration:
      return assign_duration(which, text, into);
    case option_kind::size:
    case option_kind::count:
      return assign_number(which, text, into);
    case option_kind::boolean:
      return assign_boolean(which, text, into);
    case option_kind::mode:
      return assign_mode(which, text, into);
    case option_kind::level:
      return assign_word<log_level>(which, text, levels, into);
    case option_kind::format:
      return assign_word<log_format>(which, text, formats, into);
    case option_kind::address: {
      auto address = parse_metrics_address(text);
      if (!address) return address.error().reason;
      into.*std::get<metrics_address settings::*>(which.field) = *std::move(address);
      return std::nullopt;
    }
    case option_kind::text:
    case option_kind::path:
    case option_kind::list:
      break;
  }
  return assign_text(which, text, names, into);
}

std::string show(const option& which, const settings& values) {
  const auto& field = which.field;
  switch (which.kind) {
    case option_kind::duration:
      return quoted(format_duration(values.*std::get<std::chrono::milliseconds settings::*>(field)));
    case option_kind::size:
      return quoted(format_size(values.*std::get<std::uint64_t settings::*>(field)));
    case option_kind::count:
      return std::to_string(values.*std::get<std::uint64_t settings::*>(field));
    case option_kind::boolean:
      return values.*std::get<bool settings::*>(field) ? "true" : "false";
    case option_kind::mode: {
      const unsigned mode = values.*std::get<unsigned settings::*>(field);
      std::string digits;
      for (int shift = 9; shift >= 0; shift -= 3) digits += static_cast<char>('0' + ((mode >> shift) & 7));
      return quoted(digits);
    }
    case option_kind::level:
      return quoted(to_string(values.*std::get<log_level settings::*>(field)));
    case option_kind::format:
      return quoted(to_string(values.*std::get<log_format settings::*>(field)));
    case option_kind::address:
      return quoted(to_string(values.*std::get<metrics_address settings::*>(field)));
    case option_kind::list: {
      std::string out;
      for (const allow_rule& rule : values.*std::get<std::vector<allow_rule> settings::*>(field)) {
        out += (out.empty() ? "" : ", ") + quoted(rule.text);
      }
      return "[" + out + "]";
    }
    case option_kind::text:
    case option_kind::path:
      break;
  }
  const std::string& text = values.*std::get<std::string settings::*>(field);
  return which.secret ? toml::quote(pgwake::replace_bad_utf8(pgwake::hide_password(text))) : quoted(text);
}

std::string accepted_form(const option& which) {
  const std::string bounds = in_unit(which, which.min) + " to " + in_unit(which, which.max);
  switch (which.kind) {
    case option_kind::duration:
      return "duration, " + bounds;
    case option_kind::size:
      return "size, " + bounds;
    case option_kind::count:
      return "number, " + bounds;
    case option_kind::boolean:
      return "true or false";
    case option_kind::mode:
      return "octal mode, 0 to 0777";
    case option_kind::list:
      return "list of rules";
    case option_kind::level:
      return one_of(levels);
    case option_kind::format:
      return one_of(formats);
    case option_kind::address:
      return "ADDRESS:PORT, unix:PATH or off";
    case option_kind::path:
      return "path";
    case option_kind::text:
      break;
  }
  return "text";
}

boost::system::result<allow_rule, value_error> parse_allow_rule(std::string_view text,
                                                                const name_resolver& names) {
  const std::string_view whole = trimmed(text);
  const std::size_t space = std::min(whole.find_first_of(" \t"), whole.size());
  auto rule = parse_who(whole.substr(0, space), names);
  if (!rule) return rule;
  rule->text = whole;
  std::string_view globs = trimmed(whole.substr(space));
  while (!globs.empty()) {
    const std::size_t comma = std::min(globs.find(','), globs.size());
    const std::string_view glob = trimmed(globs.substr(0, comma));
    if (glob.empty() || comma + 1 == globs.size()) {
      return value_error{quoted(text) + " has an empty channel pattern; write WHO PATTERN,PATTERN, such as " +
                         "\"user:www-data shop.*,mail\""};
    }
    rule->globs.emplace_back(glob);
    globs.remove_prefix(std::min(comma + 1, globs.size()));
  }
  return rule;
}

boost::system::result<metrics_address, value_error> parse_metrics_address(std::string_view text) {
  metrics_address out;
  if (text.empty() || text == "off") return out;
  const auto fail = [&](std::string_view why) {
    return value_error{not_a(text, "address for metrics",
                             std::string(why) + "write 127.0.0.1:PORT, [::1]:PORT, unix:PATH or off")};
  };
  constexpr std::string_view scheme = "unix:";
  if (text.substr(0, scheme.size()) == scheme) {
    out.kind = metrics_address::family::unix_socket;
    out.path = text.substr(scheme.size());
    if (out.path.empty() || out.path.size() > max_socket_path) return fail("a path has 1 to 107 bytes; ");
    if (out.path[0] == '@') return fail("an abstract socket has no owner and no mode; ");
    return out;
  }
  out.kind = metrics_address::family::tcp;
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return fail("");
  const std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (code != std::errc{} || end != port.data() + port.size() || out.port == 0) {
    return fail("a port is a number from 1 to 65535; ");
  }
  if (host == "localhost")
    out.host = "127.0.0.1";
  else if (host.starts_with('[') && host.ends_with(']'))
    out.host = host.substr(1, host.size() - 2);
  else
    out.host = host;
  const bool bracketed = host.starts_with('[');
  std::array<unsigned char, 16> bytes{};
  if (inet_pton(bracketed ? AF_INET6 : AF_INET, out.host.c_str(), bytes.data()) != 1)
    return fail("a name is not looked up, the address is a number; ");
  return out;
}

std::string to_string(const metrics_address& address) {
  switch (address.kind) {
    case metrics_address::family::off:
      return "off";
    case metrics_address::family::unix_socket:
      return "unix:" + address.path;
    case metrics_address::family::tcp:
      break;
  }
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::string_view to_string(log_level level) { return levels[static_cast<std::size_t>(level)]; }
std::string_view to_string(log_format format) { return formats[static_cast<std::size_t>(format)]; }

}  // namespace pgwaked
