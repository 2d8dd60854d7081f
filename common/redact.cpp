#include "common/redact.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace pgwake {
namespace {

// Half-open, never empty, ascending.
struct span {
  std::size_t begin;
  std::size_t end;
};
using spans = std::vector<span>;

constexpr auto npos = std::string_view::npos;
constexpr std::array<std::string_view, 5> secret_keys{"password", "sslpassword", "oauth_client_secret",
                                                      "scram_client_key", "scram_server_key"};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// As far as it can be decoded; what cannot stays as it is.
std::string percent_decoded(std::string_view text) {
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

// libpq's keys are in lower case; a key that it would refuse for its case holds a password all the same.
bool is_secret(std::string_view key) {
  std::string lower = percent_decoded(key);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(secret_keys.begin(), secret_keys.end(), lower) != secret_keys.end();
}

void add(spans& out, std::size_t begin, std::size_t end) {
  if (begin < end) out.push_back({begin, end});
}

// A key may be percent-encoded.
bool is_key_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '%';
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

// Where a URI's query begins (its `?`), or the end. libpq lets a `?` stand in a password, and takes the first
// `@` that no `/` precedes for the password's end.
std::size_t find_query(std::string_view uri, std::size_t begin) {
  const std::size_t stop = uri.find_first_of("@/", begin);
  std::size_t from = begin;
  if (stop != npos && uri[stop] == '@') {
    from = stop;
  } else {
    // No user information, says libpq. If what stands in the port's place is none, it is a password with a
    // `/`, and the host is still to come.
    const std::size_t colon = uri.find(':', begin);
    const bool bracket = begin < uri.size() && uri[begin] == '[';
    const std::size_t end = std::min(uri.find_first_of("/?", begin), uri.size());
    if (!bracket && colon < end &&
        uri.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789,") != npos) {
      const std::size_t last = uri.rfind('@');
      if (last != npos && last > begin) from = last;
    }
  }
  for (std::size_t mark = uri.find('?', from); mark != npos; mark = uri.find('?', mark + 1)) {
    if (is_query(uri.substr(mark + 1))) return mark;
  }
  return uri.size();
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
  return std::any_of(tells.begin(), tells.end(), [&](auto each) { return word.find(each) != npos; });
}

spans uri_secrets(std::string_view uri, std::size_t begin) {
  spans out;
  const std::size_t query = find_query(uri, begin);
  const std::size_t at = uri.substr(0, query).rfind('@');
  const std::size_t colon = uri.find(':', begin);
  if (at != npos && at > begin && colon < at) add(out, colon + 1, at);
  for (std::size_t pair = query + 1; pair < uri.size();) {
    const std::size_t end = std::min(uri.find('&', pair), uri.size());
    const std::size_t equals = uri.substr(0, end).find('=', pair);
    if (equals != npos && is_secret(uri.substr(pair, equals - pair))) add(out, equals + 1, end);
    pair = end + 1;
  }
  return out;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Reads as libpq's conninfo_parse does: `key = value`, the value bare or in single quotes, a backslash before
// any character. A word without `=` after a secret is taken for a part of it (an unquoted space).
class pair_reader {
 public:
  explicit pair_reader(std::string_view text) : text_(text) {}

  spans run() {
    bool after_secret = false;
    while (skip_spaces(), at_ < text_.size()) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '=' && !is_space(text_[at_])) ++at_;
      const std::string_view key = text_.substr(begin, at_ - begin);
      if (!std::all_of(key.begin(), key.end(), is_key_letter) && is_misspelt_uri(key)) {
        out_.push_back({begin, text_.size()});
        break;
      }
      skip_spaces();
      if (at_ < text_.size() && text_[at_] == '=') {
        ++at_;
        skip_spaces();
        after_secret = is_secret(key);
        value(after_secret);
      } else if (after_secret) {
        out_.push_back({begin, begin + key.size()});
      }
    }
    return std::move(out_);
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  void value(bool secret) {
    const bool quoted = at_ < text_.size() && text_[at_] == '\'';
    if (quoted) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && (quoted ? text_[at_] != '\'' : !is_space(text_[at_]))) {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_, text_.size());
    if (secret) add(out_, begin, at_);
    // dbname=postgresql://...: not what libpq expects here, yet people write it.
    const std::string_view held = text_.substr(begin, at_ - begin);
    if (const std::size_t inner = scheme_end(held); !secret && inner != 0) {
      for (const span& each : uri_secrets(held, inner)) add(out_, begin + each.begin, begin + each.end);
    } else if (!secret && held.find("://") != npos && is_misspelt_uri(held.substr(held.find("://") + 3))) {
      add(out_, begin, at_);
    }
    if (quoted && at_ < text_.size()) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  spans out_;
};

spans secrets(std::string_view conninfo) {
  if (const std::size_t begin = scheme_end(conninfo); begin != 0) return uri_secrets(conninfo, begin);
  return pair_reader(conninfo).run();
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

void add_parts(std::vector<std::string>& out, std::string_view secret) {
  constexpr std::size_t shortest = 3;
  if (secret.size() >= shortest) out.emplace_back(secret);
  for (std::size_t begin = 0; begin < secret.size();) {
    const std::size_t end = std::min(secret.find_first_of("@/?:&=# ", begin), secret.size());
    if (end - begin >= shortest) out.emplace_back(secret.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

std::string hide_password(std::string_view conninfo) {
  std::string out;
  std::size_t copied = 0;
  for (const span& secret : secrets(conninfo)) {
    out += conninfo.substr(copied, secret.begin - copied);
    out += hidden;
    copied = secret.end;
  }
  return out += conninfo.substr(copied);
}

bool has_password(std::string_view conninfo) { return !secrets(conninfo).empty(); }

std::string hide_secrets_in(std::string_view text, std::string_view conninfo) {
  std::vector<std::string> parts;
  for (const span& secret : secrets(conninfo)) {
    const std::string_view raw = conninfo.substr(secret.begin, secret.end - secret.begin);
    add_parts(parts, raw);
    add_parts(parts, percent_decoded(raw));
    add_parts(parts, unescaped(raw));
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::string out(text);
  for (const std::string& part : parts) {
    for (std::size_t at = out.find(part); at != npos; at = out.find(part, at + hidden.size())) {
      out.replace(at, part.size(), hidden);
    }
  }
  return out;
}

}  // namespace pgwake
