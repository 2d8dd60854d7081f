#include "common/pg/target.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/pg/opening.hpp"
#include "common/redact.hpp"

namespace pgwake::pg {
namespace {

constexpr const char* no_file = "/nonexistent/pgwake";
constexpr std::int64_t least_timeout = 2;  // libpq's own least
constexpr std::int64_t most_timeout = 3'600;

std::string text(const char* words) { return words != nullptr ? words : ""; }

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::string value_of(const PQconninfoOption* options, std::string_view keyword) {
  for (const auto* o = options; o != nullptr && o->keyword != nullptr; ++o)
    if (keyword == o->keyword) return text(o->val);
  return {};
}

// libpq fills in services, environment and defaults only on the way to a connection. A value that it refuses
// just before it connects leaves all that to be read, and nothing is sent anywhere. `extra` comes last.
handle refused_at_last(const connect_settings& settings, const char* keyword, const char* value) {
  auto what = connect_parameters(settings);
  what.emplace_back("channel_binding", "not-a-value");
  what.emplace_back(keyword, value);
  return begin_connect(what);
}

// By libpq's rules (manual, "The Password File"); the words are ours, since libpq's go to stderr.
std::string fault_of_passfile(const connect_settings& settings) {
  const auto conn = refused_at_last(settings, "password", "none");
  const options_handle options(conn ? PQconninfo(conn.get()) : nullptr);
  auto path = value_of(options.get(), "passfile");
  if (path.empty()) path = home_directory() + "/.pgpass";
  struct stat is {};
  if (stat(path.c_str(), &is) != 0) return {};
  if (!S_ISREG(is.st_mode)) return "password file " + path + " is not used: it is not a plain file";
  if ((is.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return "password file " + path + " is not used: others than its owner may read it; chmod 600 " + path;
  return {};
}

}  // namespace

target target_of(const connect_settings& settings) {
  target out;
  out.fault = conninfo_fault(settings.conninfo);
  if (!out.fault.empty()) return out;
  const auto conn = refused_at_last(settings, "passfile", no_file);
  const options_handle options(conn ? PQconninfo(conn.get()) : nullptr);
  const auto value = [&](std::string_view keyword) { return value_of(options.get(), keyword); };
  out.sslmode = value("sslmode");
  out.sslrootcert = value("sslrootcert");
  if (const auto seconds = std::strtoll(value("connect_timeout").c_str(), nullptr, 10); seconds > 0)
    out.connect_timeout =
        std::chrono::seconds(std::clamp<std::int64_t>(seconds, least_timeout, most_timeout));
  if (conn) {
    out.user = hide_in_value(text(PQuser(conn.get())));
    out.database = text(PQdb(conn.get()));
    const auto words = trimmed(PQerrorMessage(conn.get()));
    if (words.find("channel_binding") == words.npos)
      out.fault = one_line(hide_secrets_in(words, settings.conninfo));
  }
  if (out.fault.empty() && value("password").empty()) out.passfile_fault = fault_of_passfile(settings);
  const auto names = split(value("host"));
  const auto numbers = split(value("hostaddr"));
  const auto ports = split(value("port"));
  for (std::size_t i = 0; i < std::max(names.size(), numbers.size()); ++i) {
    host_entry one;
    if (i < names.size()) one.host = names[i];
    if (i < numbers.size()) one.hostaddr = numbers[i];
    one.port = ports.size() == 1 ? ports[0] : i < ports.size() ? ports[i] : "";
    if (one.port.empty()) one.port = "5432";
    if (one.host.empty() && one.hostaddr.empty() && conn) one.host = text(PQhost(conn.get()));
    out.hosts.push_back(std::move(one));
  }
  return out;
}

parameters to_one_host(const connect_settings& settings, const target& whole, const host_entry& host) {
  auto out = connect_parameters(settings);
  out.emplace_back("host", host.host);
  out.emplace_back("hostaddr", host.hostaddr);
  out.emplace_back("port", host.port);
  if (!whole.passfile_fault.empty()) out.emplace_back("passfile", no_file);
  return out;
}

}  // namespace pgwake::pg
