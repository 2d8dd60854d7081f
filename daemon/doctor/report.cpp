#include "daemon/doctor/report.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

#include "common/unicode.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

using writer = rapidjson::Writer<rapidjson::StringBuffer>;

void put(writer& w, const char* key, const std::string& text) {
  const auto clean = pgwake::replace_bad_utf8(text);
  w.Key(key);
  w.String(clean.data(), static_cast<rapidjson::SizeType>(clean.size()));
}

void put(writer& w, const char* key, std::int64_t number) {
  w.Key(key);
  w.Int64(number);
}

void put(writer& w, const connection_budget& b) {
  w.StartObject();
  put(w, "here_now", b.here_now);
  put(w, "here_worst", b.here_worst);
  put(w, "workers_here", b.workers_here);
  w.Key("fallback_limit");
  if (b.fallback_limit)
    w.Uint64(*b.fallback_limit);
  else
    w.Null();
  put(w, "server_now", b.server_now);
  w.Key("by_host");
  w.StartArray();
  for (const auto& [host, census] : b.by_host) {
    w.StartObject();
    put(w, "host", host);
    put(w, "hubs", census.hubs);
    put(w, "fallbacks", census.fallbacks);
    w.EndObject();
  }
  w.EndArray();
  put(w, "used", b.used);
  put(w, "reserved", b.reserved);
  put(w, "free", b.free);
  put(w, "max_connections", b.max_connections);
  w.EndObject();
}

const char* colour_of(verdict v) {
  return v == verdict::ok ? "\x1b[32m" : v == verdict::warning ? "\x1b[1;33m" : "\x1b[1;31m";
}

std::string budget_text(const connection_budget& b, std::size_t width) {
  std::string out = "\nConnection budget\n";
  out += wrapped("  this host   ",
                 std::to_string(b.here_now) + " now; " + std::to_string(b.here_worst) + " at worst (" +
                     std::to_string(b.workers_here) + " workers on the hub, fallback_limit " +
                     (b.fallback_limit ? std::to_string(*b.fallback_limit) : std::string("none")) + ")",
                 width);
  out += wrapped("  the server  ",
                 std::to_string(b.used) + " of " + std::to_string(b.max_connections) + " in use, " +
                     std::to_string(b.reserved) + " reserved for superusers, " + std::to_string(b.free) +
                     " free; pgwake holds " + std::to_string(b.server_now) + " on " +
                     std::to_string(b.by_host.size()) + (b.by_host.size() == 1 ? " host" : " hosts"),
                 width);
  for (const auto& [host, census] : b.by_host)
    out += wrapped("              ",
                   printable(host) + ": " + std::to_string(census.hubs) +
                       (census.hubs == 1 ? " hub, " : " hubs, ") + std::to_string(census.fallbacks) +
                       " on fallback",
                   width);
  return out;
}

// `tls, clock: why`, a line for each reason.
std::vector<std::string> skipped_lines(const doctor_report& r) {
  std::vector<std::pair<std::string, std::string>> by_reason;
  for (const auto& s : r.skipped) {
    auto known = std::find_if(by_reason.begin(), by_reason.end(),
                              [&](const auto& pair) { return pair.first == s.why; });
    if (known == by_reason.end())
      by_reason.emplace_back(s.why, s.check);
    else
      known->second += ", " + s.check;
  }
  std::vector<std::string> out;
  out.reserve(by_reason.size());
  for (const auto& [why, checks] : by_reason) out.push_back(checks + ": " + why);
  return out;
}

std::string summary(const doctor_report& r) {
  const auto count = [&](verdict v) {
    return std::count_if(r.findings.begin(), r.findings.end(), [v](const auto& f) { return f.how == v; });
  };
  const auto named = [](std::ptrdiff_t n, const char* thing) {
    return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
  };
  if (r.worst() == verdict::ok)
    return r.skipped.empty() ? "All good." : "All good, as far as it could be looked at.";
  return named(count(verdict::failure), "failure") + ", " + named(count(verdict::warning), "warning") + ".";
}

}  // namespace

std::string_view to_string(verdict v) {
  return v == verdict::ok ? "ok" : v == verdict::warning ? "warning" : "failure";
}

verdict doctor_report::worst() const {
  auto out = verdict::ok;
  for (const auto& f : findings) out = std::max(out, f.how);
  return out;
}

std::string report_text(const doctor_report& r, std::size_t width, bool colours) {
  constexpr std::size_t verdict_width = 9;
  constexpr std::size_t check_width = 12;
  std::string out;
  for (const auto& f : r.findings) {
    const auto label = left_aligned(to_string(f.how), verdict_width) + left_aligned(f.check, check_width);
    auto text = wrapped(label, printable(f.found), width);
    if (colours)
      text = colour_of(f.how) + text.substr(0, verdict_width) + "\x1b[0m" + text.substr(verdict_width);
    out += text;
    if (!f.advice.empty())
      out += wrapped(std::string(verdict_width + check_width, ' ') + (terminal_is_utf8() ? "→ " : "-> "),
                     printable(f.advice), width);
  }
  const auto skipped = left_aligned("skipped", verdict_width + check_width);
  for (const auto& line : skipped_lines(r)) out += wrapped(skipped, printable(line), width);
  if (r.budget) out += budget_text(*r.budget, width);
  return out + "\n" + summary(r) + "\n";
}

std::string report_json(const doctor_report& r) {
  rapidjson::StringBuffer buffer;
  writer w(buffer);
  w.StartObject();
  put(w, "verdict", std::string(to_string(r.worst())));
  w.Key("checks");
  w.StartArray();
  for (const auto& f : r.findings) {
    w.StartObject();
    put(w, "check", f.check);
    put(w, "verdict", std::string(to_string(f.how)));
    put(w, "found", f.found);
    if (f.advice.empty()) {
      w.Key("advice");
      w.Null();
    } else {
      put(w, "advice", f.advice);
    }
    w.EndObject();
  }
  w.EndArray();
  w.Key("skipped");
  w.StartArray();
  for (const auto& s : r.skipped) w.String(s.check.c_str());
  w.EndArray();
  w.Key("skipped_because");
  w.StartObject();
  for (const auto& s : r.skipped) put(w, s.check.c_str(), s.why);
  w.EndObject();
  w.Key("budget");
  if (r.budget)
    put(w, *r.budget);
  else
    w.Null();
  w.EndObject();
  return printable_json({buffer.GetString(), buffer.GetSize()});
}

}  // namespace pgwaked
