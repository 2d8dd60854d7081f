#include "daemon/status/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

constexpr std::size_t most_rows = 100;
constexpr std::size_t label_width = 9;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::string percent(double part) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), part > 0 && part < 0.0001 ? "under 0.01 %%" : "%.2f %%", part * 100);
  return out.data();
}

std::string line(const char* label, const std::string& text, std::size_t width) {
  return cut(left_aligned(label, label_width) + text, width) + "\n";
}

// `2 workers`, `1 worker`
std::string count(std::uint64_t n, const char* thing) {
  return grouped(n) + " " + thing + (n == 1 ? "" : "s");
}

std::string server_line(const hub_status& s) {
  const auto& up = s.upstream;
  std::string out = up.server.empty() ? "no server reached yet" : printable(up.server);
  if (!up.database.empty()) out += ", database " + printable(up.database);
  const auto version = server_version_name(up.server_version);
  if (!version.empty()) out += ", " + version;
  if (up.pooler) out += ", through a connection pooler";
  return out;
}

std::string session_line(const hub_status& s) {
  const auto& up = s.upstream;
  std::string out = up.state.empty() ? "unknown" : printable(up.state);
  if (up.since_s) out += " for " + short_duration(milliseconds_of(*up.since_s));
  if (up.backend_pid != 0) out += ", backend PID " + std::to_string(up.backend_pid);
  out += ", " + count(up.reconnects, "reconnect");
  if (up.attempts > up.reconnects + 1) out += ", " + count(up.attempts, "attempt");
  return out;
}

// A table whose first `fixed` columns take what they need and whose flexible one takes what is left.
struct column {
  const char* title;
  bool right = true;
};
using table_row = std::vector<std::string>;

std::string table(const std::vector<column>& columns, const std::vector<table_row>& rows,
                  std::size_t flexible, std::size_t width) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(columns_of(columns[c].title));
    for (const auto& r : rows) widths[c] = std::max(widths[c], columns_of(r[c]));
  }
  std::size_t others = 2 * (columns.size() - 1);
  for (std::size_t c = 0; c < columns.size(); ++c)
    if (c != flexible) others += widths[c];
  const std::size_t least = columns_of(columns[flexible].title);
  widths[flexible] = std::clamp(width > others ? width - others : least, least, widths[flexible]);
  std::string out;
  const auto put = [&](const auto& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (c > 0) text += "  ";
      text += columns[c].right ? right_aligned(cell(c), widths[c]) : left_aligned(cell(c), widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += cut(text, width) + "\n";
  };
  put([&](std::size_t c) { return std::string(columns[c].title); });
  for (const auto& r : rows) put([&](std::size_t c) { return r[c]; });
  return out;
}

std::string unlisted(std::size_t shown, std::uint64_t all, const char* things, const char* where) {
  if (all <= shown) return {};
  return "... and " + grouped(all - shown) + " more " + things + where + "\n";
}

std::string workers_table(const hub_status& s, std::size_t width) {
  if (s.workers.empty()) return {};
  auto workers = s.workers;
  slowest_first(workers);
  std::vector<table_row> rows;
  for (const auto& w : workers) {
    if (rows.size() == most_rows) break;
    rows.push_back({std::to_string(w.id), std::to_string(w.pid), std::to_string(w.uid),
                    w.name.empty() ? "-" : printable(w.name), printable(w.dialect), grouped(w.channel_count),
                    short_bytes(w.outbox_bytes), grouped(w.outbox_frames),
                    w.oldest_ms ? compact_duration(std::chrono::milliseconds(*w.oldest_ms)) : "-",
                    grouped(w.delivered), grouped(w.coalesced)});
  }
  return "\n" +
         table({{"WORKER"},
                {"PID"},
                {"UID"},
                {"NAME", false},
                {"SPEAKS", false},
                {"CHANNELS"},
                {"UNSENT"},
                {"FRAMES"},
                {"OLDEST"},
                {"DELIVERED"},
                {"COALESCED"}},
               rows, 3, width) +
         unlisted(rows.size(), s.totals.workers, "workers", s.truncated ? "" : " (--json shows all)");
}

std::string channels_table(const hub_status& s, std::size_t width) {
  if (s.channels.empty()) return {};
  auto channels = s.channels;
  std::sort(channels.begin(), channels.end(), [](const auto& a, const auto& b) {
    return a.workers != b.workers ? a.workers > b.workers : a.name < b.name;
  });
  std::vector<table_row> rows;
  for (const auto& c : channels) {
    if (rows.size() == most_rows) break;
    rows.push_back({printable(c.name), grouped(c.workers), c.active ? "active" : "waiting for LISTEN"});
  }
  return "\n" + table({{"CHANNEL", false}, {"WORKERS"}, {"STATE", false}}, rows, 0, width) +
         unlisted(rows.size(), s.totals.channels, "channels", s.truncated ? "" : " (--json shows all)");
}

}  // namespace

std::string health_text(const hub_status& s) {
  if (s.healthy) return "healthy";
  if (s.draining) return "draining: the hub is about to stop";
  struct words {
    const char* reason;
    const char* text;
  };
  constexpr std::array<words, 13> known = {{{"connecting", "no connection to PostgreSQL"},
                                            {"login", "PostgreSQL refuses the login"},
                                            {"pooler", "a connection pooler is in between"},
                                            {"recovery", "the server is a standby"},
                                            {"relisten", "LISTENing again after an outage"},
                                            {"connection_lost", "the connection to PostgreSQL was lost"},
                                            {"silent", "PostgreSQL fell silent"},
                                            {"deaf", "the session got no notifications"},
                                            {"probe", "PostgreSQL failed a probe"},
                                            {"check", "a new session failed its check"},
                                            {"listen", "LISTEN fails"},
                                            {"answer", "PostgreSQL answered what it was not asked"},
                                            {"operator", "reconnecting, as asked"}}};
  std::string out = "degraded";
  const auto* it =
      std::find_if(known.begin(), known.end(), [&](const auto& w) { return s.reason == w.reason; });
  out += std::string(": ") + (it != known.end() ? it->text : s.reason.empty() ? "?" : printable(s.reason));
  if (!s.detail.empty()) out += " (" + printable(in_one_line(s.detail)) + ")";
  return out;
}

std::string advice_for(const hub_status& s) {
  if (s.healthy || s.draining) return {};
  const auto& reason = s.reason;
  if (s.full)
    return "the server has no connection to spare: workers that have one of their own give it up for the "
           "hub; pgwaked doctor tells who has the others";
  if (reason == "pooler")
    return "give the hub a direct connection; a pooler in session mode can be allowed (allow_session_pooler)";
  if (reason == "recovery") return "name the primary, or all hosts of the cluster, in `database`";
  if (reason.empty() || reason == "relisten" || reason == "operator") return {};  // it mends itself
  return "pgwaked doctor finds out what stands in the way; the hub keeps trying by itself";
}

std::string status_text(const hub_status& s, const std::string& socket, std::size_t width) {
  std::string out = cut("pgwaked " + printable(s.version) + ", PID " + std::to_string(s.pid) + ", up " +
                            short_duration(milliseconds_of(s.uptime_s)) + ", at " + printable(socket),
                        width) +
                    "\n";
  out += wrapped(left_aligned("health", label_width), health_text(s), width);
  if (const auto advice = advice_for(s); !advice.empty())
    out += wrapped(std::string(label_width, ' '), advice, width);
  out += line("server", server_line(s), width);
  out += line("session", session_line(s), width);
  out += line("queue",
              s.upstream.queue_usage
                  ? percent(*s.upstream.queue_usage) + " of the server's notify queue is in use"
                  : std::string("the server's notify queue was not looked at yet"),
              width);
  const auto& t = s.totals;
  out += line("now",
              count(t.workers, "worker") + ", " + count(t.channels, "channel") + " (" +
                  grouped(s.upstream.channels_listened) + " listened to), " + short_bytes(t.outbox_bytes) +
                  " unsent",
              width);
  out += line("so far",
              count(t.notifications, "notification") + " in, " + count(t.delivered, "wake") + " out, " +
                  grouped(t.coalesced) + " coalesced, " + count(t.gaps, "gap"),
              width);
  std::string more = count(t.workers_ever, "worker") + " served, " + grouped(t.evicted) + " evicted, " +
                     grouped(t.workers_refused) + " refused, " + count(t.protocol_errors, "protocol error") +
                     ", " + count(t.nacks, "nack");
  out += line("", more, width);
  return out + workers_table(s, width) + channels_table(s, width);
}

}  // namespace pgwaked
