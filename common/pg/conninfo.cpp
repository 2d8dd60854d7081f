#include "common/pg/conninfo.hpp"

#include <libpq-fe.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>

namespace pgwake::pg {
namespace {

struct free_options {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using options_ptr = std::unique_ptr<PQconninfoOption, free_options>;

options_ptr parse(const std::string& conninfo, std::string& fault) {
  char* message = nullptr;
  options_ptr options(PQconninfoParse(conninfo.c_str(), &message));
  if (!options) fault = message != nullptr ? message : "out of memory";
  if (message != nullptr) PQfreemem(message);
  while (!fault.empty() && fault.back() == '\n') fault.pop_back();
  return options;
}

std::string home() {
  if (const char* h = std::getenv("HOME"); h != nullptr && *h != '\0') return h;
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_dir : "";
}

// The keywords that a service sets, in the files that libpq would read (manual, "The Connection Service
// File").
std::set<std::string> service_keywords(const std::string& service) {
  const char* own = std::getenv("PGSERVICEFILE");
  const char* system = std::getenv("PGSYSCONFDIR");
  const std::array<std::string, 2> files = {
      own != nullptr ? std::string(own) : home() + "/.pg_service.conf",
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

struct default_value {
  const char* keyword;
  const char* variable;  // of the environment, that wins over it
  std::string value;
};

}  // namespace

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
  // The first dbname is expanded as a connection string; what follows wins over what it says.
  if (!settings.conninfo.empty()) out.emplace_back("dbname", settings.conninfo);
  out.emplace_back("application_name", settings.application_name);
  out.emplace_back("client_encoding", "UTF8");
  return out;
}

std::string conninfo_fault(const std::string& conninfo) {
  std::string fault;
  parse(conninfo, fault);
  return fault;
}

std::string database_of(const std::string& conninfo) {
  std::string fault;
  const auto options = parse(conninfo, fault);
  for (auto* o = options.get(); o != nullptr && o->keyword != nullptr; ++o)
    if (std::string_view(o->keyword) == "dbname" && o->val != nullptr) return o->val;
  const char* variable = std::getenv("PGDATABASE");
  return variable != nullptr ? variable : "";
}

}  // namespace pgwake::pg
