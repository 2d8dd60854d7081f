#include "common/pg/opening.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "common/pg/certificate.hpp"
#include "common/pg/intake.hpp"
#include "common/redact.hpp"

namespace pgwake::pg {
namespace {

using steady = std::chrono::steady_clock;

// libpq's own limits are its user's (0: none at all). These are ours, above them.
constexpr millis naming_limit{60'000};       // resolvers give up by themselves after some 30 s
constexpr millis unlimited_address{30'000};  // where connect_timeout=0 would wait for ever
constexpr millis margin{10'000};             // keys and certificates are files, too
constexpr millis slice{50};                  // an attempt that was given up is noticed within
constexpr std::size_t most_addresses = 64;
constexpr std::size_t longest_words = 1'000;
constexpr const char* unasked = " the server answered what nobody asked for";

void ignore(void*, const PGresult*) {}

struct free_addresses {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};

// What the name stands for now, in numbers, in the resolver's order.
std::vector<std::string> addresses_of(const std::string& name, std::string& fault) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &hints, &list); error != 0) {
    fault = "could not translate host name \"" + name + "\" to address: " + gai_strerror(error);
    return {};
  }
  const std::unique_ptr<addrinfo, free_addresses> owned(list);
  std::vector<std::string> out;
  for (const auto* a = list; a != nullptr && out.size() < most_addresses; a = a->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(a->ai_addr, a->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
        std::find(out.begin(), out.end(), text.data()) == out.end())
      out.emplace_back(text.data());
  }
  if (out.empty()) fault = "could not translate host name \"" + name + "\" to address";
  return out;
}

// A state of the server or of the protocol, never a text: those come in the server's language.
bool is_refusal(const std::string& sqlstate, PGconn* conn) {
  return sqlstate.starts_with("28") || sqlstate == "3D000" || sqlstate == "42501" ||
         PQconnectionNeedsPassword(conn) == 1;
}

std::string place(const PGconn* conn) {
  const char* host = PQhost(conn);
  const char* port = PQport(conn);
  return hide_in_value(host != nullptr ? host : "") + ":" + (port != nullptr ? port : "");
}

std::string seconds(millis time) { return std::to_string(time.count() / 1000) + " s"; }

// What it failed with; empty: nothing.
std::string run_first(PGconn* conn, const connect_settings& settings, const progress& at) {
  if (settings.first.empty()) return "";
  const auto until = steady::now() + settings.connect_timeout;
  if (PQsendQuery(conn, settings.first.c_str()) == 0) return one_line(trimmed(PQerrorMessage(conn)));
  intake watch(PQsocket(conn), steady::now());
  while (PQisBusy(conn) != 0) {
    if (!wait_for(conn, POLLIN, until, &at)) return "no answer in time";
    watch.about_to_read();
    if (PQconsumeInput(conn) == 0) return one_line(trimmed(PQerrorMessage(conn)));
    if (!watch.fits(steady::now())) return "the server sends more than it was asked for, without end";
  }
  const result_handle result(PQgetResult(conn));
  if (PQresultStatus(result.get()) == PGRES_COMMAND_OK) return "";
  auto words = one_line(trimmed(PQerrorMessage(conn)));
  return words.empty() ? trimmed(unasked) : words;
}

// `LOCATION:  auth_failed, auth.c:326`, whatever its first word.
bool names_a_source_line(const std::string& line) {
  const auto digits = line.find_last_not_of("0123456789");
  return digits != line.npos && digits + 1 < line.size() && digits >= 2 &&
         line.compare(digits - 2, 3, ".c:") == 0;
}

class one_attempt {
 public:
  one_attempt(const connect_settings& settings, progress& at) : settings_(settings), at_(at) {}

  opened run() {
    at_.enter("reading the password and service files", settings_.connect_timeout);
    target_ = target_of(settings_);
    out_.warning = target_.passfile_fault;
    out_.failure.user = target_.user;
    if (!target_.fault.empty()) {
      out_.failure.message = target_.fault;
      return std::move(out_);
    }
    for (const auto& host : target_.hosts)
      if (tried(host)) break;
    if (!out_.conn && !out_.warning.empty()) add(out_.warning);
    return std::move(out_);
  }

 private:
  // True: there is no need to go on.
  bool tried(host_entry host) {
    if (host.is_directory() || !host.hostaddr.empty()) return tried_address(host);
    at_.enter("resolving the server's name", naming_limit);
    std::string fault;
    const auto addresses = addresses_of(host.host, fault);
    if (!fault.empty()) add(fault);
    for (const auto& address : addresses) {
      host.hostaddr = address;
      if (tried_address(host)) return true;
    }
    return at_.halted();
  }

  bool tried_address(const host_entry& host) {
    if (at_.halted()) return true;
    const auto limit = target_.connect_timeout.count() > 0 ? target_.connect_timeout : unlimited_address;
    at_.enter("connecting", limit + margin);
    auto conn = begin_connect(to_one_host(settings_, target_, host));
    if (!conn) return add("out of memory"), true;
    PQsetNoticeReceiver(conn.get(), ignore, nullptr);
    PQsetErrorVerbosity(conn.get(), PQERRORS_VERBOSE);
    auto state = PGRES_POLLING_FAILED;
    intake watch(-1, {});
    int watched = -1;
    const auto floods = [&] {
      if (std::exchange(watched, PQsocket(conn.get())) != PQsocket(conn.get()))
        watch = intake(watched, steady::now());
      watch.about_to_read();
      return !watch.fits(steady::now());
    };
    if (PQstatus(conn.get()) != CONNECTION_BAD)
      state = drive(conn.get(), steady::now() + limit, floods, &at_);
    if (at_.halted()) return true;
    if (state == PGRES_POLLING_OK && PQsocket(conn.get()) >= 0) return take(std::move(conn)), true;
    if (state == PGRES_POLLING_FAILED || state == PGRES_POLLING_OK) {
      auto why = words_of_failure(trimmed(PQerrorMessage(conn.get())));
      if (why.message.empty() || why.message.back() == ':')
        why.message += unasked;  // libpq has no words for COPY
      out_.failure.login_refused = is_refusal(why.sqlstate, conn.get());
      out_.failure.full = why.sqlstate == "53300";
      add(why.message);
      return out_.failure.login_refused;  // as libpq: no other host is asked then
    }
    const std::string where = "connection to server at \"" + host.host + "\"" +
                              (host.hostaddr.empty() ? "" : " (" + host.hostaddr + ")") + ", port " +
                              host.port;
    add(where + (watch.fits(steady::now())
                     ? " failed: timeout expired (no answer within " + seconds(limit) + ")"
                     : " failed: it says too much before a session is open"));
    return false;
  }

  void take(handle conn) {
    PQsetErrorVerbosity(conn.get(), PQERRORS_DEFAULT);
    at_.enter("the first command", settings_.connect_timeout + margin);
    if (auto fault = run_first(conn.get(), settings_, at_); !fault.empty()) {
      out_.failure.message = hide_secrets_in(fault, settings_.conninfo);
      return;
    }
    PQsetnonblocking(conn.get(), 1);  // so that nobody ever waits to say goodbye
    out_.failure = {};
    out_.info.backend_pid = PQbackendPID(conn.get());
    out_.info.server_version = PQserverVersion(conn.get());
    out_.info.server = place(conn.get());
    out_.info.user = target_.user;
    out_.certificate_ends_in_s = certificate_expires_in(conn.get());
    out_.conn = std::move(conn);
  }

  void add(const std::string& words) {
    auto& all = out_.failure.message;
    if (all.size() < longest_words)
      all += (all.empty() ? "" : "; ") + hide_secrets_in(words, settings_.conninfo);
  }

  const connect_settings& settings_;
  progress& at_;
  target target_;
  opened out_;
};

}  // namespace

void progress::enter(const char* doing, millis limit) {
  const std::lock_guard lock(guard_);
  stage_ = {doing, steady::now() + limit};
}

progress::stage progress::now() const {
  const std::lock_guard lock(guard_);
  return stage_;
}

handle begin_connect(const parameters& what) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : what) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  return handle(PQconnectStartParams(keywords.data(), values.data(), 1));
}

bool wait_for(PGconn* conn, short events, steady_time until, const progress* halting) {
  for (;;) {
    const auto left = std::chrono::ceil<millis>(until - steady::now());
    if (left.count() <= 0 || (halting != nullptr && halting->halted())) return false;
    pollfd p{PQsocket(conn), events, 0};
    const int n = poll(&p, 1, static_cast<int>((halting != nullptr ? std::min(left, slice) : left).count()));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// A verbose message has lines like `... FATAL:  28P01: password authentication failed` and `LOCATION:
// auth_failed, auth.c:326`; their first words are in the server's language, the two spaces are not. With TLS
// preferred both tries are in it: the last one counts.
failed_words words_of_failure(const std::string& message) {
  failed_words out;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    if (names_a_source_line(line)) continue;
    const auto at = line.find(":  ");
    if (at != line.npos && line.size() >= at + 10 && line.compare(at + 8, 2, ": ") == 0 &&
        std::all_of(line.begin() + static_cast<std::ptrdiff_t>(at) + 3,
                    line.begin() + static_cast<std::ptrdiff_t>(at) + 8,
                    [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'A' && c <= 'Z'); })) {
      out.sqlstate = line.substr(at + 3, 5);
      line.erase(at + 3, 7);
    }
    out.message += (out.message.empty() ? "" : "\n") + line;
  }
  out.message = one_line(std::move(out.message));
  return out;
}

std::string one_line(std::string words) {
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  if (words.size() > longest_words) {
    auto end = longest_words;
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xC0U) == 0x80U) --end;
    words.resize(end);
    words += "...";
  }
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return words;
}

opened open_session(const connect_settings& settings, progress& at) {
  if (!settings.read) return one_attempt(settings, at).run();
  at.enter("reading the file of the connection string", settings.connect_timeout);
  auto known = settings;
  std::string fault;
  known.conninfo = settings.read(fault);
  if (fault.empty() && !at.halted()) return one_attempt(known, at).run();
  opened out;
  out.failure.message = one_line(std::move(fault));
  return out;
}

}  // namespace pgwake::pg
