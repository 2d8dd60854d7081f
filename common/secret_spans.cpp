#include "common/secret_spans.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace pgwake {
namespace {

using span = secret_span;
using spans = secret_spans;

constexpr auto npos = std::string_view::npos;
constexpr auto secret_words = std::to_array<std::string_view>(
    {"password", "passwd", "passphrase", "pwd", "secret", "scram_client_key", "scram_server_key"});

// Of libpq up to 18, but for those that hold a secret. `ssl` is a URI's.
constexpr auto keywords = std::to_array<std::string_view>({"application_name",
                                                           "authtype",
                                                           "channel_binding",
                                                           "client_encoding",
                                                           "connect_timeout",
                                                           "dbname",
                                                           "fallback_application_name",
                                                           "gssdelegation",
                                                           "gssencmode",
                                                           "gsslib",
                                                           "host",
                                                           "hostaddr",
                                                           "keepalives",
                                                           "keepalives_count",
                                                           "keepalives_idle",
                                                           "keepalives_interval",
                                                           "krbsrvname",
                                                           "load_balance_hosts",
                                                           "max_protocol_version",
                                                           "min_protocol_version",
                                                           "oauth_client_id",
                                                           "oauth_issuer",
                                                           "oauth_scope",
                                                           "options",
                                                           "passfile",
                                                           "port",
                                                           "replication",
                                                           "require_auth",
                                                           "requirepeer",
                                                           "requiressl",
                                                           "service",
                                                           "servicefile",
                                                           "ssl",
                                                           "ssl_max_protocol_version",
                                                           "ssl_min_protocol_version",
                                                           "sslcert",
                                                           "sslcertmode",
                                                           "sslcompression",
                                                           "sslcrl",
                                                           "sslcrldir",
                                                           "sslkey",
                                                           "sslkeylogfile",
                                                           "sslmode",
                                                           "sslnegotiation",
                                                           "sslrootcert",
                                                           "sslsni",
                                                           "target_session_attrs",
                                                           "tcp_user_timeout",
                                                           "tty",
                                                           "user"});
// Their values are paths, in which a file may be called `password.txt`.
constexpr auto file_keywords = std::to_array<std::string_view>(
    {"passfile", "servicefile", "sslcert", "sslcrl", "sslcrldir", "sslkey", "sslkeylogfile", "sslrootcert"});

template <std::size_t N>
bool any_of(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// As far as it can be decoded; what cannot stays as it is.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool encoded =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (encoded) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
// A key may be percent-encoded.
bool is_key_letter(char c) { return is_alphanumeric(c) || c == '_' || c == '%'; }

void add(spans& out, std::size_t begin, std::size_t end) {
  if (begin < end) out.push_back({begin, end});
}

// libpq's keys are in lower case; a key that it would refuse for its case holds a password all the same.
bool is_secret(std::string_view key) {
  const std::string name = lower(decoded(key));
  return std::any_of(secret_words.begin(), secret_words.end(),
                     [&](auto word) { return name.ends_with(word); });
}

// What must follow a word that ends in password for a secret to begin there.
enum class follower { anything, assignment, assignment_or_end };

// Where a secret begins in the middle of a text: behind such a word, and whatever separates them. Of the
// other words, only if a `=` or `:` follows. npos: nowhere.
std::size_t find_secret(std::string_view text, follower wanted) {
  const std::string low = lower(text);
  std::size_t best = npos;
  for (const auto word : secret_words) {
    for (std::size_t at = low.find(word); at != npos; at = low.find(word, at + 1)) {
      std::size_t end = at + word.size();
      if (end < low.size() && is_key_letter(low[end]) && low[end] != '%') continue;  // a longer word
      const std::size_t next = std::min(low.find_first_not_of(" \t\r\n'\"\\", end), low.size());
      const bool assigned = next < low.size() && (low[next] == '=' || low[next] == ':');
      const bool enough =
          wanted == follower::anything || (wanted == follower::assignment_or_end && next == low.size());
      if (!assigned && !(enough && word == "password")) continue;
      end = std::min(low.find_first_not_of(" \t\r\n'\"\\=:", end), low.size());
      best = std::min(best, end);
      break;
    }
  }
  return best;
}

// What of a value may be a secret that was meant to be a value of its own. True: at its end one may go on.
bool add_strays(spans& out, std::string_view value, std::size_t offset, bool path = false) {
  const std::string plain = decoded(value);
  if (plain != value) {
    spans inner;
    const bool more = add_strays(inner, plain, 0, path);
    if (more || !inner.empty()) {
      add(out, offset, offset + value.size());
      return more;
    }
  }
  const std::size_t word = find_secret(value, path ? follower::assignment_or_end : follower::anything);
  std::size_t from = word;
  // Pairs with something else than spaces between them: the keys may be anybody's.
  const std::size_t separator = value.find_first_of(";&");
  if (separator != npos && value.find('=', separator) != npos) from = std::min(from, separator + 1);
  const std::size_t colon = value.find(':');
  const std::size_t at = value.rfind('@');
  if (at != npos && colon < at && colon + 1 < from) {
    if (at >= from)
      from = colon + 1;
    else
      add(out, offset + colon + 1, offset + at);
  }
  add(out, offset + std::min(from, value.size()), offset + value.size());
  return word != npos;
}

// Where a URI's scheme ends; 0: this is none.
std::size_t scheme_end(std::string_view conninfo) {
  for (const std::string_view scheme : {"postgresql://", "postgres://"}) {
    if (conninfo.substr(0, scheme.size()) == scheme) return scheme.size();
  }
  return 0;
}

// A URI whose scheme is mistyped or missing (`postgress://`, `POSTGRES://`, `postgresql:/`, a space in
// front): libpq takes it for a key. Where its password would be cannot be told, so that all of it is one.
bool is_misspelt_uri(std::string_view word) {
  constexpr auto tells = std::to_array<std::string_view>({"://", "@", "password", "secret", "scram_"});
  const std::string low = lower(word);
  return std::any_of(tells.begin(), tells.end(), [&](auto each) { return low.find(each) != npos; });
}

// Whether `text` is key=value pairs as they follow a URI's `?`.
bool is_query(std::string_view text) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    const std::size_t equals = pair.find('=');
    if (equals == npos || equals == 0) return false;
    if (!std::all_of(pair.begin(), pair.begin() + static_cast<std::ptrdiff_t>(equals), is_key_letter))
      return false;
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
  }
  return true;
}

class uri_reader {
 public:
  uri_reader(std::string_view uri, std::size_t begin) : uri_(uri), begin_(begin) {}

  spans run() {
    const std::size_t query = find_query();
    const std::size_t at = uri_.substr(0, query).rfind('@');
    const bool user_information = at != npos && at >= begin_;
    if (user_information) user(at);
    hosts_and_database(user_information ? at + 1 : begin_, query);
    pairs(query + 1);
    return std::move(out_);
  }

 private:
  // Where the query begins (its `?`), or the end. libpq lets a `?` stand in a password, and takes the first
  // `@` that no `/` precedes for the password's end.
  std::size_t find_query() const {
    const std::size_t stop = uri_.find_first_of("@/", begin_);
    std::size_t from = begin_;
    if (stop != npos && uri_[stop] == '@') {
      from = stop;
    } else {
      // No user information, says libpq. If what stands in the port's place is none, it is a password with a
      // `/`, and the host is still to come.
      const std::size_t colon = uri_.find(':', begin_);
      const bool bracket = begin_ < uri_.size() && uri_[begin_] == '[';
      const std::size_t end = std::min(uri_.find_first_of("/?", begin_), uri_.size());
      if (!bracket && colon < end &&
          uri_.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789,") != npos) {
        const std::size_t last = uri_.rfind('@');
        if (last != npos && last > begin_) from = last;
      }
    }
    for (std::size_t mark = uri_.find('?', from); mark != npos; mark = uri_.find('?', mark + 1)) {
      if (is_query(uri_.substr(mark + 1))) return mark;
    }
    return uri_.size();
  }

  // Behind another separator than `:` the password is a part of what libpq takes for the user.
  void user(std::size_t at) {
    const std::size_t colon = std::min(uri_.find(':', begin_), at);
    const auto name = uri_.substr(begin_, colon - begin_);
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return is_key_letter(c) || static_cast<unsigned char>(c) >= 0x80 ||
             std::string_view("-.~+@!$*'()").find(c) != npos;
    });
    add(out_, plain ? colon + 1 : begin_, at);
    if (plain && colon < at) return;
    if (plain) add_strays(out_, name, begin_);
  }

  // From the first letter on that neither hosts with their ports nor a database's name have.
  void hosts_and_database(std::size_t begin, std::size_t end) {
    const auto text = uri_.substr(begin, end - begin);
    const std::size_t slash = std::min(text.find('/'), text.size());
    std::size_t wrong = std::min(end_of_hosts(text.substr(0, slash)), text.size());
    if (wrong == slash && slash < text.size()) {
      wrong = slash + 1;
      const auto in_name = [](char c) {
        return is_key_letter(c) || static_cast<unsigned char>(c) >= 0x80 ||
               std::string_view("-.~+!$*'()").find(c) != npos;
      };
      while (wrong < text.size() && in_name(text[wrong])) ++wrong;
    }
    add(out_, begin + wrong + (wrong < text.size() ? 1 : 0), end);
    add_strays(out_, text.substr(0, wrong), begin);
  }

  static std::size_t end_of_hosts(std::string_view hosts) {
    bool bracket = false;
    bool port = false;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const char c = hosts[i];
      if (c == '[') bracket = true;
      if (c == ']') bracket = false;
      if (c == ',') port = false;
      const bool digit = c >= '0' && c <= '9';
      if (port && !digit && c != ',') return i == 0 ? 0 : hosts.rfind(':', i == 0 ? 0 : i - 1);
      if (c == ':' && !bracket) port = true;
      if (!is_key_letter(c) && std::string_view("-.:,[]").find(c) == npos) return i;
    }
    return hosts.size();
  }

  void pairs(std::size_t pair) {
    bool after_secret = false;
    while (pair < uri_.size()) {
      const std::size_t end = std::min(uri_.find('&', pair), uri_.size());
      const std::size_t equals = std::min(uri_.substr(0, end).find('=', pair), end);
      const auto key = decoded(uri_.substr(pair, equals - pair));
      const std::size_t value = std::min(equals + 1, end);
      if (is_secret(key)) {
        add(out_, value, end);
        after_secret = true;
      } else if (any_of(keywords, key)) {
        after_secret = key != "require_auth" &&
                       add_strays(out_, uri_.substr(value, end - value), value, any_of(file_keywords, key));
      } else {  // a `&` that should have been encoded, or a key that libpq does not know
        add(out_, after_secret ? pair : value, end);
      }
      pair = end + 1;
    }
  }

  std::string_view uri_;
  std::size_t begin_;
  spans out_;
};

bool add_value(spans& out, std::string_view value, std::size_t offset, bool path) {
  // dbname=postgresql://...: not what libpq expects here, yet people write it.
  if (const std::size_t begin = scheme_end(value); begin != 0) {
    for (const span& each : uri_reader(value, begin).run()) add(out, offset + each.begin, offset + each.end);
    return false;
  }
  if (const auto at = value.find("://"); at != npos && is_misspelt_uri(value.substr(at + 3))) {
    add(out, offset, offset + value.size());
    return true;
  }
  return add_strays(out, value, offset, path);
}

// Reads as libpq's conninfo_parse does: `key = value`, the value bare or in single quotes, a backslash before
// any character. After a secret all is taken for a part of it (an unquoted space), up to a keyword of libpq.
class pair_reader {
 public:
  explicit pair_reader(std::string_view text) : text_(text) {}

  spans run() {
    while (skip_spaces(), at_ < text_.size()) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '=' && !is_space(text_[at_])) ++at_;
      const std::string_view word = text_.substr(begin, at_ - begin);
      if (!std::all_of(word.begin(), word.end(), is_key_letter) && is_misspelt_uri(word)) {
        out_.push_back({begin, text_.size()});
        break;
      }
      skip_spaces();
      if (at_ < text_.size() && text_[at_] == '=')
        pair(word, begin);
      else if (after_secret_)
        add(out_, begin, begin + word.size());
      else
        after_secret_ = add_strays(out_, word, begin);
    }
    return std::move(out_);
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  void pair(std::string_view key, std::size_t begin) {
    ++at_;
    skip_spaces();
    const auto [from, to] = value();
    const bool known = any_of(keywords, key);
    if (known) {
      after_secret_ = key != "require_auth" &&
                      add_value(out_, text_.substr(from, to - from), from, any_of(file_keywords, key));
      return;
    }
    // A `=` within `user:password@host`, or within a password.
    const std::size_t colon = std::min(key.find(':'), key.size());
    add(out_, after_secret_ && !is_secret(key) ? begin : begin + std::min(colon + 1, key.size()),
        begin + key.size());
    add(out_, from, to);
    spans within;
    const bool more = add_strays(within, text_.substr(from, to - from), from);
    after_secret_ = after_secret_ || is_secret(key) || more;
  }

  span value() {
    const bool quoted = at_ < text_.size() && text_[at_] == '\'';
    if (quoted) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && (quoted ? text_[at_] != '\'' : !is_space(text_[at_]))) {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_, text_.size());
    const std::size_t end = at_;
    if (quoted && at_ < text_.size()) ++at_;
    return {begin, end};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool after_secret_ = false;
  spans out_;
};

}  // namespace

std::string percent_decoded(std::string_view text) { return decoded(text); }

secret_spans in_order(secret_spans all) {
  std::sort(all.begin(), all.end(), [](const span& a, const span& b) { return a.begin < b.begin; });
  spans out;
  for (const span& each : all) {
    if (!out.empty() && each.begin <= out.back().end)
      out.back().end = std::max(out.back().end, each.end);
    else
      out.push_back(each);
  }
  return out;
}

spans secrets_of(std::string_view conninfo) {
  if (const std::size_t begin = scheme_end(conninfo); begin != 0)
    return in_order(uri_reader(conninfo, begin).run());
  return in_order(pair_reader(conninfo).run());
}

spans strays_in(std::string_view value) {
  spans out;
  add_value(out, value, 0, false);
  return in_order(std::move(out));
}

std::size_t find_assigned_secret(std::string_view text) { return find_secret(text, follower::assignment); }

bool is_keyword(std::string_view word) { return any_of(keywords, word); }

}  // namespace pgwake
