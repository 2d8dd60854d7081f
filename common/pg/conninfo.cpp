#include "common/pg/conninfo.hpp"

#include <libpq-fe.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <span>

#include "common/pg/handle.hpp"
#include "common/redact.hpp"

namespace pgwake::pg {
namespace {

constexpr std::string_view spaces = " \t\r\n\v\f";

options_handle parse(const std::string& conninfo, std::string& fault) {
  char* message = nullptr;
  options_handle options(PQconninfoParse(conninfo.c_str(), &message));
  if (!options) fault = message != nullptr ? trimmed(message) : "out of memory";
  if (message != nullptr) PQfreemem(message);
  return options;
}

// The keywords that a service sets, in the files that libpq would read (manual, "The
// Connection Service File").
std::set<std::string> service_keywords(const std::string& service) {
  const char* own = std::getenv("PGSERVICEFILE");
  const char* system = std::getenv("PGSYSCONFDIR");
  const std::array<std::string, 2> files = {
      own != nullptr ? std::string(own) : home_directory() + "/.pg_service.conf",
      std::string(system != nullptr ? system : "/etc/postgresql-common") + "/pg_service.conf"};
  std::set<std::string> found;
  for (const auto& file : files) {
    std::ifstream in(file);
    bool inside = false;
    for (std::string line; std::getline(in, line);) {
      line.erase(0, line.find_first_not_of(" \t"));
      if (line.starts_with('['))
        inside = line.starts_with("[" + service + "]");
      else if (const auto at = line.find('='); inside && at != std::string::npos)
        found.insert(line.substr(0, at));
    }
    if (!found.empty()) break;
  }
  return found;
}

bool is_plain_keyword(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == text.npos;
}

bool is_uri(std::string_view conninfo) {
  return conninfo.starts_with("postgresql://") || conninfo.starts_with("postgres://");
}

// Whether `piece` can be nothing but a keyword: it stands at one place, a value of its own follows, and
// no password that it could be a part of begins before it, as far as a string tells that its writer may
// have meant otherwise.
bool is_surely_keyword(std::string_view piece, std::string_view conninfo) {
  if (!is_plain_keyword(piece)) return false;
  const auto scheme = is_uri(conninfo) ? conninfo.find("://") + 3 : 0;
  const auto rest = conninfo.substr(scheme);
  const auto at = rest.find(piece);
  if (at == rest.npos || rest.find(piece, at + 1) != rest.npos) return false;
  const auto before = rest.substr(0, at);
  if (has_password(conninfo.substr(0, scheme + at)) || before.find_first_of(":@") != before.npos ||
      before.find("//") != before.npos || before.find("password") != before.npos)
    return false;
  if (!before.empty() && spaces.find(before.back()) == spaces.npos && before.back() != '?' &&
      before.back() != '&')
    return false;
  const auto equals = rest.find_first_not_of(spaces, at + piece.size());
  if (equals == rest.npos || rest[equals] != '=') return false;
  const auto value = rest.find_first_not_of(spaces, equals + 1);
  return value != rest.npos && rest[value] != '=';
}

// libpq's words about a string that it cannot read repeat pieces of it, and where the string is not what its
// writer meant, any piece may be the password. Only what can be nothing but a keyword comes through.
std::string without_pieces(const std::string& words, const std::string& conninfo) {
  const auto begin = words.find('"');
  const auto end = words.rfind('"');
  if (begin == words.npos || begin == end) return words;
  const auto piece = std::string_view(words).substr(begin + 1, end - begin - 1);
  if (words.starts_with("invalid connection option ") || words.starts_with("invalid URI query parameter: "))
    return is_surely_keyword(piece, conninfo)
               ? words
               : "it has a keyword that libpq does not know (a value with spaces needs single quotes)";
  if (words.starts_with("missing \"=\" after "))
    return "it has a word that no = follows (a value with spaces needs single quotes)";
  if (const auto quotation = words.find(": \""); quotation != words.npos) return words.substr(0, quotation);
  return "libpq cannot read it";
}

bool looks_like_uri(std::string_view conninfo) {
  const auto begin = conninfo.find_first_not_of(spaces);
  if (begin == conninfo.npos) return false;
  const auto word = conninfo.substr(begin, conninfo.find_first_of(std::string(spaces) + "=", begin) - begin);
  return word.find_first_of("@:/") != word.npos;
}

// What libpq looks at only once it connects, by its manual ("Parameter Key Words"). Without a check here a
// slip would be a hub that starts and retries for ever. A list has one value for each host.
// Nothing here is destroyed at the end of the process: an attempt to connect may still be under way then, on a thread that
// nobody waits for.
struct value_rule {
  const char* keyword;
  bool list;
  std::span<const std::string_view> words;  // empty: a whole number, up to `most`
  std::int64_t most;
};

constexpr std::array<std::string_view, 6> ssl_modes = {"disable", "allow",     "prefer",
                                                       "require", "verify-ca", "verify-full"};
constexpr std::array<std::string_view, 6> session_attributes = {"any",     "read-write", "read-only",
                                                                "primary", "standby",    "prefer-standby"};
constexpr std::array<std::string_view, 3> modes = {"disable", "prefer", "require"};
constexpr std::int64_t most_int = std::numeric_limits<int>::max();
constexpr std::array<value_rule, 11> value_rules = {{{"sslmode", false, ssl_modes, 0},
                                                     {"target_session_attrs", false, session_attributes, 0},
                                                     {"gssencmode", false, modes, 0},
                                                     {"channel_binding", false, modes, 0},
                                                     {"port", true, {}, 65'535},
                                                     {"connect_timeout", false, {}, most_int},
                                                     {"keepalives", false, {}, most_int},
                                                     {"keepalives_idle", false, {}, most_int},
                                                     {"keepalives_interval", false, {}, most_int},
                                                     {"keepalives_count", false, {}, most_int},
                                                     {"tcp_user_timeout", false, {}, most_int}}};

// As libpq reads one: spaces around it, a sign. A port cannot be 0 or less.
bool is_whole_number(std::string_view text, std::int64_t least, std::int64_t most) {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  text.remove_suffix(text.size() - 1 - text.find_last_not_of(spaces));
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}

bool obeys(std::string_view value, const value_rule& rule) {
  if (value.empty()) return true;  // the default
  if (!rule.words.empty()) return std::find(rule.words.begin(), rule.words.end(), value) != rule.words.end();
  return is_whole_number(value, rule.list ? 1 : std::numeric_limits<int>::min(), rule.most);
}

bool all_obey(std::string_view value, const value_rule& rule) {
  while (rule.list && value.find(',') != value.npos) {
    if (!obeys(value.substr(0, value.find(',')), rule)) return false;
    value.remove_prefix(value.find(',') + 1);
  }
  return obeys(value, rule);
}

// Not with the value: after an unencoded `/` the port is a part of the password.
std::string accepted_by(const value_rule& rule) {
  std::string out = std::string(rule.keyword) + " has a value that libpq does not take; it takes ";
  if (rule.list) return out + "a number from 1 to 65535, or one for each host with commas between them";
  if (rule.words.empty()) return out + "a whole number";
  for (std::size_t i = 0; i < rule.words.size(); ++i)
    out.append(i == 0 ? "" : i + 1 == rule.words.size() ? " or " : ", ").append(rule.words[i]);
  return out;
}

std::string fault_of_values(const PQconninfoOption* options) {
  for (const auto* o = options; o->keyword != nullptr; ++o)
    for (const auto& rule : value_rules)
      if (o->val != nullptr && std::string_view(o->keyword) == rule.keyword && !all_obey(o->val, rule))
        return accepted_by(rule);
  return {};
}

// A value that holds the rest of the string, since what its writer put between the pairs is no separator:
// libpq would look for a host of that name, and tell the name server the password.
std::string fault_of_places(const PQconninfoOption* options) {
  for (const auto* o = options; o->keyword != nullptr; ++o) {
    const std::string_view keyword = o->keyword;
    if (o->val == nullptr || keyword == "require_auth" || keyword.ends_with("password") ||
        keyword.ends_with("secret"))
      continue;
    const std::string_view value = o->val;
    if (!(keyword == "host" && value.find_first_of(";&=?") != value.npos) && !has_stray_password(value))
      continue;
    return std::string(keyword) +
           " has a value that seems to hold further settings; write spaces between key=value pairs, and in a "
           "URI a ? before the first parameter, & between them, and %XX for what is special in a password";
  }
  return {};
}

struct default_value {
  const char* keyword;
  const char* variable;  // of the environment, that wins over it
  std::string value;
};

}  // namespace

std::string home_directory() {
  if (const char* h = std::getenv("HOME"); h != nullptr && *h != '\0') return h;
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_dir : "";
}

parameters connect_parameters(const connect_settings& settings) {
  std::string fault;
  const auto options = parse(settings.conninfo, fault);
  std::set<std::string> given;
  std::string service;
  if (const char* s = std::getenv("PGSERVICE")) service = s;
  for (auto* o = options.get(); o != nullptr && o->keyword != nullptr; ++o) {
    if (o->val == nullptr) continue;
    given.insert(o->keyword);
    if (std::string_view(o->keyword) == "service") service = o->val;
  }
  if (!service.empty()) given.merge(service_keywords(service));

  const auto seconds =
      std::max<std::int64_t>(2, (settings.connect_timeout.count() + 999) / 1000);  // libpq's least
  const std::array<default_value, 8> defaults = {{
      {"connect_timeout", "PGCONNECT_TIMEOUT", std::to_string(seconds)},
      {"target_session_attrs", "PGTARGETSESSIONATTRS", "primary"},
      {"keepalives", nullptr, "1"},
      {"keepalives_idle", nullptr, "30"},
      {"keepalives_interval", nullptr, "10"},
      {"keepalives_count", nullptr, "3"},
      {"tcp_user_timeout", nullptr, "15000"},
      {"gssencmode", "PGGSSENCMODE", "disable"},
  }};
  parameters out;
  for (const auto& d : defaults) {
    const bool from_environment = d.variable != nullptr && std::getenv(d.variable) != nullptr;
    if (!from_environment && !given.contains(d.keyword)) out.emplace_back(d.keyword, d.value);
  }
  // The first dbname is expanded as a connection string, and none but that; what follows wins over what it
  // says.
  if (!settings.conninfo.empty() || !settings.over.empty()) out.emplace_back("dbname", settings.conninfo);
  out.emplace_back("application_name", settings.application_name);
  out.emplace_back("client_encoding", "UTF8");
  out.insert(out.end(), settings.over.begin(), settings.over.end());
  return out;
}

std::string conninfo_fault(const std::string& conninfo) {
  std::string fault;
  if (const auto options = parse(conninfo, fault)) {
    fault = fault_of_places(options.get());
    return fault.empty() ? fault_of_values(options.get()) : fault;
  }
  if (!is_uri(conninfo) && looks_like_uri(conninfo))
    return "it is no URI and no key=value pairs (a connection URI begins with postgresql:// or postgres://, "
           "in small letters and with nothing before it)";
  return without_pieces(fault, conninfo);
}

std::optional<std::string> value_in(const std::string& conninfo, std::string_view keyword) {
  std::string fault;
  const auto options = parse(conninfo, fault);
  for (auto* o = options.get(); o != nullptr && o->keyword != nullptr; ++o)
    if (o->keyword == keyword && o->val != nullptr) return o->val;
  return std::nullopt;
}

std::string libpq_version() {
  const int number = PQlibVersion();
  return std::to_string(number / 10'000) + "." + std::to_string(number % 10'000);
}

std::string database_of(const std::string& conninfo) {
  if (auto name = value_in(conninfo, "dbname")) return *name;
  const char* variable = std::getenv("PGDATABASE");
  return variable != nullptr ? variable : "";
}

}  // namespace pgwake::pg
