// Holds what speaks of metrics to the code: docs/metrics.md, the dashboard, the alerts, the page.
#include <rapidjson/document.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "daemon/metrics/page.hpp"
#include "daemon/metrics/text.hpp"

using namespace pgwaked;

namespace {

std::string source(const std::string& path) {
  std::ifstream file(PGWAKE_SOURCE_DIR "/" + path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Names of series that `text` speaks of and that no hub has.
std::set<std::string> unknown_names(const std::string& text) {
  std::set<std::string> known;
  for (const auto& m : metric_descriptions()) {
    known.emplace(m.name);
    if (m.kind == metric_kind::histogram)
      for (const auto* end : {"_bucket", "_sum", "_count"}) known.insert(std::string(m.name) + end);
  }
  std::set<std::string> unknown;
  const std::regex name("\\b(pgwaked|process)_[a-z0-9_]+");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it)
    if (!known.contains(it->str())) unknown.insert(it->str());
  return unknown;
}

std::string row_of(const metric_description& m) {
  const auto or_nothing = [](std::string_view text) { return text.empty() ? "" : std::string(text); };
  std::string labels;
  std::string rest(m.labels);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    labels += (labels.empty() ? "`" : ", `") + rest.substr(0, comma) + "`";
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  return "| `" + std::string(m.name) + "` | " + std::string(to_string(m.kind)) + " | " + or_nothing(m.unit) +
         " | " + labels + " | " + std::string(m.help) + " |";
}

}  // namespace

TEST_CASE("docs/metrics.md lists every metric as the code has it, and no other") {
  const auto text = source("docs/metrics.md");
  std::string missing;
  for (const auto& m : metric_descriptions())
    if (text.find("\n" + row_of(m) + "\n") == std::string::npos) missing += row_of(m) + "\n";
  INFO("missing rows:\n" << missing);
  CHECK(missing.empty());
  CHECK(unknown_names(text) == std::set<std::string>{});
}

TEST_CASE("the alerts speak of metrics that exist, and docs/metrics.md of each alert") {
  const auto rules = source("config/prometheus-alerts.yml");
  CHECK(unknown_names(rules) == std::set<std::string>{});
  const auto text = source("docs/metrics.md");
  const std::regex alert("- alert: (\\w+)");
  int count = 0;
  for (std::sregex_iterator it(rules.begin(), rules.end(), alert), end; it != end; ++it, ++count) {
    INFO((*it)[1].str());
    CHECK(text.find("`" + (*it)[1].str() + "`") != std::string::npos);
  }
  CHECK(count >= 10);
}

TEST_CASE("the dashboard is one that Grafana reads, of metrics that exist, and misses none that matters") {
  const auto text = source("config/grafana-dashboard.json");
  rapidjson::Document dashboard;
  dashboard.Parse(text.c_str());
  REQUIRE_FALSE(dashboard.HasParseError());
  CHECK(unknown_names(text) == std::set<std::string>{});
  std::set<int> ids;
  for (const auto& panel : dashboard["panels"].GetArray()) {
    INFO(panel["title"].GetString());
    CHECK(ids.insert(panel["id"].GetInt()).second);
    if (std::string(panel["type"].GetString()) == "row") continue;
    CHECK(panel["targets"].Size() > 0);
    for (const auto& target : panel["targets"].GetArray()) {
      CHECK(std::string(target["expr"].GetString()).find("instance=~\"$instance\"") != std::string::npos);
      CHECK(std::string(target["datasource"]["uid"].GetString()) == "${datasource}");
    }
  }
  for (const auto& m : metric_descriptions()) {
    // What it is and when it began is no plot; wrong frames show as protocol errors.
    static const std::set<std::string_view> not_plotted{
        "pgwaked_info",
        "pgwaked_uptime_seconds",
        "pgwaked_unhealthy_reason",
        "pgwaked_draining",
        "process_start_time_seconds",
        "process_max_fds",
        "pgwaked_reloads_total",
        "pgwaked_settings_waiting_for_restart",
        "pgwaked_upstream_certificate_expiry_timestamp_seconds",
        "pgwaked_upstream_session_seconds",
        "pgwaked_acks_total",
        "pgwaked_fences_total",
        "pgwaked_upstream_pooler",
        "pgwaked_workers_joined_total",
        "pgwaked_workers_behind",
        "pgwaked_channels_limit",
        "pgwaked_outbox_limit_bytes",
        "pgwaked_outbox_frames",
        "pgwaked_frames_received_total",
        "pgwaked_frames_unknown_total"};
    INFO(m.name);
    CHECK((text.find(m.name) != std::string::npos) != not_plotted.contains(m.name));
  }
}

TEST_CASE("the page asks for nothing from elsewhere, and of metrics that exist") {
  const std::string page(metrics_page());
  const std::regex address("https?://[^ '\"`<)]*");
  for (std::sregex_iterator it(page.begin(), page.end(), address), end; it != end; ++it)
    CHECK(it->str().starts_with("http://www.w3.org/"));  // names of XML namespaces
  for (const auto* way : {"src=", "@import", "url(", "import(", "XMLHttpRequest", "WebSocket", "EventSource"})
    CHECK(page.find(way) == std::string::npos);
  CHECK(unknown_names(page) == std::set<std::string>{});
  CHECK(page.find("/*{{") == std::string::npos);
}
