// Metrics in the hands of what is made to read them: promtool, a real Prometheus, and the strict OpenMetrics
// parser of its Python client.
#include <rapidjson/document.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cctype>
#include <regex>

#include "integration/metrics_rig.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

bool nothing_to_do() {
  if (access("/usr/bin/promtool", X_OK) == 0 &&
      run({.argv = {"/usr/bin/python3", "-c", "import prometheus_client"}}).exit_code == 0)
    return false;
  say_skipped("Prometheus is not installed: apt-get install prometheus python3-prometheus-client");
  return true;
}

const std::string config = PGWAKE_SOURCE_DIR "/config/";

std::string url_encoded(const std::string& text) {
  static const char* const digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      out += c;
    else
      out.append("%").append(1, digits[byte >> 4U]).append(1, digits[byte & 15U]);
  }
  return out;
}

// A Prometheus that scrapes the hub every second, with the project's alert rules.
class prometheus {
 public:
  explicit prometheus(const metrics_rig& r) : port_(random_port()) {
    write_file(home_ / "prometheus.yml",
               "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
               "rule_files: ['" +
                   config +
                   "prometheus-alerts.yml']\n"
                   "scrape_configs:\n"
                   "  - job_name: pgwaked\n"
                   "    static_configs: [{targets: ['127.0.0.1:" +
                   std::to_string(r.address().port) + "']}]\n");
    process_.emplace(process_options{
        .argv = {"/usr/bin/prometheus", "--config.file=" + (home_ / "prometheus.yml"),
                 "--storage.tsdb.path=" + (home_ / "data"),
                 "--web.listen-address=127.0.0.1:" + std::to_string(port_), "--log.level=warn"}});
  }

  // Its API's answer; null while it does not answer.
  rapidjson::Document get(const std::string& path) const {
    rapidjson::Document answer;
    try {
      answer.Parse(http_ask({.port = port_}, "/api/v1/" + path, "Connection: close\r\n").body.c_str());
    } catch (const std::runtime_error&) {
      // Not up yet.
    }
    if (answer.HasParseError() || !answer.IsObject()) answer.SetNull();
    return answer;
  }
  // The first value of an instant query; nothing if there is none.
  std::optional<double> value(const std::string& query) const {
    const auto answer = get("query?query=" + url_encoded(query));
    if (!answer.IsObject() || !answer.HasMember("data") || answer["data"]["result"].Empty()) return {};
    return std::stod(answer["data"]["result"][0]["value"][1].GetString());
  }
  process& child() { return *process_; }

 private:
  int port_;
  temp_dir home_;
  std::optional<process> process_;
};

void make_some_traffic(metrics_rig& r) {
  auto worker = r->worker();
  worker.subscribe("c");
  for (int i = 0; i < 5; ++i) {
    r->notify("c", "x");
    worker.expect_wake("c", "x");
  }
}

}  // namespace

TEST_CASE("monitoring: promtool finds nothing to say about the metrics, healthy or not") {
  if (nothing_to_do()) return;
  metrics_rig r({.through_proxy = true});
  make_some_traffic(r);
  const auto lint = [&] {
    const auto result = run({.argv = {"promtool", "check", "metrics"}, .input = r.ask("/metrics").body});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out.empty());
    CHECK(result.err.empty());
  };
  lint();
  r->proxy().refuse();
  r->proxy().close_all();
  REQUIRE_EVENTUALLY(r.ask("/healthz").status == 503, 5s);
  lint();
}

TEST_CASE("monitoring: the strict OpenMetrics parser reads every family, with its unit") {
  if (nothing_to_do()) return;
  metrics_rig r;
  make_some_traffic(r);
  const auto body = r.ask("/metrics", "Accept: application/openmetrics-text\r\n").body;
  const auto result =
      run({.argv = {"/usr/bin/python3", "-c",
                    "import sys\n"
                    "from prometheus_client.openmetrics.parser import text_string_to_metric_families\n"
                    "for f in text_string_to_metric_families(sys.stdin.read()):\n"
                    "    assert f.documentation, f\n"
                    "    print(f.type, f.name, f.unit, len(f.samples))\n"},
           .input = body});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  for (const auto* line :
       {"info pgwaked  1", "gauge pgwaked_uptime_seconds seconds 1", "counter pgwaked_notifications  1",
        "histogram pgwaked_wake_latency_seconds seconds 24", "gauge pgwaked_outbox_bytes bytes 1",
        "counter process_cpu_seconds seconds 1"})
    CHECK(result.out.find(std::string(line) + "\n") != std::string::npos);
}

TEST_CASE("monitoring: promtool accepts the alert rules, and they fire when they should and only then") {
  if (nothing_to_do()) return;
  const auto rules = run({.argv = {"promtool", "check", "rules", config + "prometheus-alerts.yml"}});
  INFO(rules.out << rules.err);
  CHECK(rules.exit_code == 0);
  const temp_dir home;
  auto cases = read_file(PGWAKE_SOURCE_DIR "/tests/integration/alerts_test.yml");
  cases.replace(cases.find("[RULES]") + 1, 5, config + "prometheus-alerts.yml");
  write_file(home / "cases.yml", cases);
  const auto fired = run({.argv = {"promtool", "test", "rules", home / "cases.yml"}});
  INFO(fired.out << fired.err);
  CHECK(fired.exit_code == 0);
}

TEST_CASE("monitoring: a real Prometheus scrapes the hub, and every query of the dashboard is answered") {
  if (nothing_to_do()) return;
  metrics_rig r({.through_proxy = true});
  make_some_traffic(r);
  prometheus p(r);
  REQUIRE_EVENTUALLY(p.value("up{job=\"pgwaked\"}") == 1, 30s);
  REQUIRE_EVENTUALLY(p.value("pgwaked_notifications_total") == 5, 10s);
  CHECK(p.value("pgwaked_healthy") == 1);
  CHECK(p.value("pgwaked_wake_latency_seconds_count") == 5);
  // It took OpenMetrics, and so the units.
  const auto meta = p.get("targets/metadata?metric=pgwaked_wake_latency_seconds");
  REQUIRE(meta["data"].Size() == 1);
  CHECK(std::string(meta["data"][0]["type"].GetString()) == "histogram");
  CHECK(std::string(meta["data"][0]["unit"].GetString()) == "seconds");

  // Rates take two samples.
  const auto p99 = "histogram_quantile(0.99, sum by (le) (rate(pgwaked_wake_latency_seconds_bucket[30s])))";
  REQUIRE_EVENTUALLY(
      [&] {
        make_some_traffic(r);
        return p.value(p99).value_or(0) > 0;
      }(),
      20s);

  rapidjson::Document dashboard;
  dashboard.Parse(read_file(config + "grafana-dashboard.json").c_str());
  int queries = 0;
  for (const auto& panel : dashboard["panels"].GetArray()) {
    if (!panel.HasMember("targets")) continue;
    for (const auto& target : panel["targets"].GetArray()) {
      std::string query = target["expr"].GetString();
      for (const auto& [variable, chosen] : {std::pair("\\$job", "pgwaked"), std::pair("\\$instance", ".*"),
                                             std::pair("\\$__rate_interval", "30s")})
        query = std::regex_replace(query, std::regex(variable), chosen);
      INFO(panel["title"].GetString() << ": " << query);
      const auto answer = p.get("query?query=" + url_encoded(query));
      REQUIRE(answer.IsObject());
      CHECK(std::string(answer["status"].GetString()) == "success");
      CHECK_FALSE(answer["data"]["result"].Empty());
      ++queries;
    }
  }
  CHECK(queries > 30);

  // An outage: the alert is at least pending.
  r->proxy().refuse();
  r->proxy().close_all();
  REQUIRE_EVENTUALLY(p.value("ALERTS{alertname=\"PgwakeUnhealthy\"}") == 1, 30s);
  CHECK_FALSE(p.value("ALERTS{alertname!=\"PgwakeUnhealthy\"}").has_value());
}
