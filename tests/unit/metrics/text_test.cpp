#include "daemon/metrics/text.hpp"

#include <rapidjson/document.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "daemon/app/attempt_tally.hpp"
#include "daemon/app/stats.hpp"
#include "daemon/metrics/page.hpp"
#include "unit/core/engine_rig.hpp"

using namespace pgwake;
using namespace pgwake::test;
using namespace pgwaked;
using namespace std::chrono_literals;

namespace {

// An engine that began an hour after the clock's own beginning, so that nothing happens at time zero.
struct metrics_rig : engine_rig {
  metrics_rig() {
    now += 1h;
    began = now;
  }
  std::string text(metrics_format format = metrics_format::openmetrics) {
    metrics_view view{.hub = engine, .now = now, .started = began, .refused = 3};
    view.process = process_figures{1.5, 4096, 1.7e9, 17, 1024};
    view.reloads = reloads;
    view.host = "web1";
    view.certificate_ends = certificate_ends;
    view.failed_attempts = attempts.failed();
    return metrics_text(view, format);
  }
  // Series to value.
  std::map<std::string, std::string> values() {
    std::map<std::string, std::string> out;
    std::istringstream lines(text());
    for (std::string line; std::getline(lines, line);)
      if (line[0] != '#') out[line.substr(0, line.rfind(' '))] = line.substr(line.rfind(' ') + 1);
    return out;
  }
  double value(const std::string& series) { return std::stod(values().at(series)); }
  // As the app does: what waits goes out, and how long it waited is counted.
  void write(worker_id id) { engine.written(id, engine.open_outbox(id)->bytes(), now); }

  steady_time began;
  reload_figures reloads;
  attempt_tally attempts;
  std::optional<double> certificate_ends;
};

}  // namespace

TEST_CASE("metrics: a duration lies in the first bucket whose bound it does not exceed") {
  using h = duration_histogram;
  for (std::size_t i = 0; i <= h::bounds_ns.size(); ++i) {
    const bool last = i == h::bounds_ns.size();
    const auto low = i == 0 ? 0 : h::bounds_ns[i - 1] + 1;
    const auto high = last ? std::int64_t{1} << 62 : h::bounds_ns[i];
    for (const auto ns : {low, (low + high) / 2, high}) {
      h histogram;
      histogram.add(std::chrono::nanoseconds(ns));
      INFO("bucket " << i << ", " << ns << " ns");
      CHECK(histogram.counts()[i] == 1);
    }
  }
  h histogram;
  histogram.add(-5s);
  histogram.add(2s);
  histogram.add(3ms);
  CHECK(histogram.counts()[0] == 1);
  CHECK(histogram.sum_seconds() == Approx(2.003));
}

TEST_CASE("metrics: every line belongs to a family that has a help, a kind and, where there is one, a unit") {
  for (const auto format : {metrics_format::openmetrics, metrics_format::prometheus}) {
    metrics_rig r;
    r.serve();
    const bool open = format == metrics_format::openmetrics;
    std::istringstream lines(r.text(format));
    std::string family;
    std::string kind;
    std::string previous;
    std::set<std::string> seen;
    std::string last;
    for (std::string line; std::getline(lines, line); last = line) {
      INFO(line);
      std::istringstream words(line);
      std::string hash, what, name, rest;
      if (line[0] == '#') {
        words >> hash >> what >> name >> rest;
        if (what == "EOF") continue;
        if (what == "HELP") {
          family = name;
          CHECK(seen.insert(family).second);
          CHECK(line.back() == '.');
        }
        CHECK(name == family);
        if (what == "TYPE") kind = rest;
        // OpenMetrics: the unit is the end of the family's name.
        if (what == "UNIT" && open) CHECK(family.ends_with("_" + rest));
        continue;
      }
      name = line.substr(0, line.find_first_of("{ "));
      const auto added = name.substr(std::min(name.size(), family.size()));
      REQUIRE(name.starts_with(family));
      if (kind == "histogram")
        CHECK((added == "_bucket" || added == "_sum" || added == "_count"));
      else if (open)
        CHECK(added == (kind == "counter" ? "_total" : kind == "info" ? "_info" : ""));
      else
        CHECK(added.empty());
      if (kind == "counter") CHECK(name.ends_with("_total"));
    }
    CHECK(last == "# EOF");
    CHECK(seen.size() == metric_descriptions().size());
  }
}

TEST_CASE("metrics: every counter and gauge of status is there with its value") {
  metrics_rig r;
  const auto a = r.join();
  const auto b = r.join(false);
  r.sub(a, "events");
  r.sub(a, "jobs");
  r.sub(b, "jobs");
  r.sub(a, "");
  r.say(a, R"({"t":"no such"})");
  r.serve();
  r.engine.notification("events", "x", 1, r.now);
  r.engine.notification("events", "", 1, r.now);
  r.engine.notification("events", "", 1, r.now);
  r.engine.notification("nobody", "x", 1, r.now);
  r.now += 2s;

  const stats_view view{{true, 0}, {}, r.began, 3};
  rapidjson::Document status;
  status.Parse(stats_json(r.engine, view, r.now).c_str());
  REQUIRE(status.IsObject());
  const std::map<std::string, std::string> names{
      {"workers_ever", "pgwaked_workers_joined_total"},
      {"workers_refused", "pgwaked_workers_refused_total"},
      {"channels", "pgwaked_channels"},
      {"notifications", "pgwaked_notifications_total"},
      {"unrouted", "pgwaked_notifications_unrouted_total"},
      {"delivered", "pgwaked_wakes_delivered_total"},
      {"coalesced", "pgwaked_wakes_coalesced_total"},
      {"gaps", "pgwaked_gaps_total"},
      {"acks", "pgwaked_acks_total"},
      {"nacks", "pgwaked_nacks_total"},
      {"fences", "pgwaked_fences_total"},
      {"evicted", "pgwaked_workers_evicted_total"},
      {"frames_received", "pgwaked_frames_received_total"},
      {"unknown_frames", "pgwaked_frames_unknown_total"},
      {"protocol_errors", "pgwaked_protocol_errors_total"},
      {"outbox_bytes", "pgwaked_outbox_bytes"},
      {"reconnects", "pgwaked_upstream_reconnects_total"},
      {"attempts", "pgwaked_upstream_attempts_total"},
      {"queue_usage", "pgwaked_upstream_queue_usage_ratio"},
      {"channels_listened", "pgwaked_upstream_channels_listened"},
      {"since_s", "pgwaked_upstream_session_seconds"},
      {"uptime_s", "pgwaked_uptime_seconds"},
  };
  // Sums that metrics show by part, and numbers that name something.
  const std::set<std::string> elsewhere{"workers", "backend_pid", "server_version", "pid"};
  const auto values = r.values();
  const auto compare = [&](const rapidjson::Value& part) {
    for (const auto& m : part.GetObject()) {
      const std::string key = m.name.GetString();
      if (!m.value.IsNumber() || elsewhere.contains(key)) continue;
      INFO("status has " << key);
      REQUIRE(names.contains(key));
      CHECK(std::stod(values.at(names.at(key))) == Approx(m.value.GetDouble()));
    }
  };
  compare(status["totals"]);
  compare(status["upstream"]);
  compare(status);
  CHECK(values.at("pgwaked_workers{dialect=\"v0\"}") == "1");
  CHECK(values.at("pgwaked_workers{dialect=\"v1\"}") == "1");
  CHECK(values.at("pgwaked_healthy") == "1");
  CHECK(values.at("pgwaked_upstream_state{state=\"live\"}") == "1");
  CHECK(values.at("pgwaked_subscriptions") == "3");
  CHECK(values.at("process_cpu_seconds_total") == "1.5");
  CHECK(values.contains(
      "pgwaked_info{version=\"0.1.0\",host=\"web1\",hub=\"uuid\",database=\"shop\",system_id=\"7123\","
      "server_version=\"0\"}"));
}

TEST_CASE("metrics: attempts that failed are counted by their reason, and those that served are not") {
  metrics_rig r;
  CHECK(r.value("pgwaked_upstream_failures_total{reason=\"login\"}") == 0);
  const auto fails = [&](const connect_failure& why) {
    r.now += 1min;
    r.engine.tick(r.now, true);
    r.attempts.look(r.engine.the_upstream());
    r.engine.connect_failed(why, r.now);
    for (int i = 0; i < 3; ++i)
      r.attempts.look(r.engine.the_upstream());  // looked at again and again, counted once
  };
  r.engine.start(r.now);
  fails({"no route", false});
  fails({"password", true});
  fails({"password", true});
  CHECK(r.value("pgwaked_upstream_failures_total{reason=\"connecting\"}") == 1);
  CHECK(r.value("pgwaked_upstream_failures_total{reason=\"login\"}") == 2);
  metrics_rig served;
  served.serve();
  served.attempts.look(served.engine.the_upstream());
  served.lose();
  served.attempts.look(served.engine.the_upstream());
  CHECK(served.attempts.failed().empty());
}

TEST_CASE("metrics: reloads, settings that wait for a restart, descriptors, the end of the certificate") {
  metrics_rig r;
  r.serve();
  r.reloads = {3, 2, 1};
  r.certificate_ends = 1.8e9;
  CHECK(r.value("pgwaked_reloads_total{result=\"done\"}") == 3);
  CHECK(r.value("pgwaked_reloads_total{result=\"refused\"}") == 2);
  CHECK(r.value("pgwaked_settings_waiting_for_restart") == 1);
  CHECK(r.value("process_open_fds") == 17);
  CHECK(r.value("process_max_fds") == 1024);
  CHECK(r.value("pgwaked_upstream_certificate_expiry_timestamp_seconds") == 1.8e9);
  r.lose();
  CHECK_FALSE(r.values().contains("pgwaked_upstream_certificate_expiry_timestamp_seconds"));
}

TEST_CASE("metrics: a sub's time to its ack is counted, an outage included") {
  metrics_rig r;
  r.serve();
  const auto a = r.join();
  r.sub(a, "c");
  r.now += 7ms;
  r.serve();
  r.sub(a, "c");  // active: acked at once
  auto v = r.values();
  CHECK(v.at("pgwaked_ack_latency_seconds_count") == "2");
  CHECK(v.at("pgwaked_ack_latency_seconds_sum") == "0.007");
  CHECK(v.at("pgwaked_ack_latency_seconds_bucket{le=\"0.005\"}") == "1");
  CHECK(v.at("pgwaked_ack_latency_seconds_bucket{le=\"0.01\"}") == "2");
  CHECK(v.at("pgwaked_ack_latency_seconds_bucket{le=\"1.0\"}") == "2");
  CHECK(v.at("pgwaked_ack_latency_seconds_bucket{le=\"+Inf\"}") == "2");

  r.lose();
  r.sub(a, "d");
  r.now += 4s;
  r.recover();
  CHECK(r.value("pgwaked_ack_latency_seconds_count") == 3);
  CHECK(r.value("pgwaked_ack_latency_seconds_sum") == Approx(4.007));
}

TEST_CASE("metrics: a wake's time in the hub is counted per delivery, when its last byte is written") {
  metrics_rig r;
  r.serve();
  const auto a = r.join();
  const auto b = r.join();
  for (const auto id : {a, b}) r.sub(id, "c");
  r.serve();
  for (const auto id : {a, b}) r.write(id);
  CHECK(r.value("pgwaked_wake_latency_seconds_count") == 0);  // acks are no wakes

  r.engine.notification("c", "one", 1, r.now);
  r.now += 300us;
  r.write(a);
  CHECK(r.value("pgwaked_wake_latency_seconds_count") == 1);
  r.now += 2s;
  r.engine.written(b, 3, r.now);  // a part of it only
  CHECK(r.value("pgwaked_wake_latency_seconds_count") == 1);
  CHECK(r.value("pgwaked_worker_behind_seconds") == Approx(2.0003));
  CHECK(r.value("pgwaked_workers_behind") == 1);
  r.write(b);
  CHECK(r.value("pgwaked_wake_latency_seconds_count") == 2);
  CHECK(r.value("pgwaked_wake_latency_seconds_sum") == Approx(2.0006));
  CHECK(r.value("pgwaked_wake_latency_seconds_bucket{le=\"0.0005\"}") == 1);
  CHECK(r.value("pgwaked_workers_behind") == 0);
  CHECK(r.value("pgwaked_worker_behind_seconds") == 0);
}

TEST_CASE("metrics: the fullest outbox is measured as its limit is, in payloads") {
  metrics_rig r;
  r.serve();
  const auto a = r.join();
  const auto b = r.join();
  for (const auto id : {a, b}) r.sub(id, "c");
  r.sub(a, "only a");
  r.serve();
  for (const auto id : {a, b}) r.read(id);
  for (int i = 0; i < 3; ++i) r.engine.notification("only a", "x", 1, r.now);
  r.engine.notification("c", "", 1, r.now);
  CHECK(r.value("pgwaked_worker_outbox_frames") == 3);
  CHECK(r.value("pgwaked_outbox_frames") == 5);
  CHECK(r.value("pgwaked_worker_outbox_bytes") < r.value("pgwaked_outbox_bytes"));
  CHECK(r.value("pgwaked_worker_outbox_limit_frames") == 1'000'000);
}

TEST_CASE("metrics: more workers and channels are not more series, and none of their names is shown") {
  metrics_rig few;
  few.serve();
  metrics_rig many;
  for (int i = 0; i < 200; ++i) many.sub(many.join(i % 2 == 0), "secret-channel-" + std::to_string(i));
  many.serve();
  CHECK(few.values().size() == many.values().size());
  CHECK(many.text().find("secret-channel") == std::string::npos);
}

TEST_CASE("metrics: health says why it is not there") {
  metrics_rig r;
  CHECK(unhealthy_because(r.engine) == "connecting");
  CHECK(r.value("pgwaked_healthy") == 0);
  CHECK(r.value("pgwaked_unhealthy_reason{reason=\"connecting\"}") == 1);
  r.serve();
  CHECK(unhealthy_because(r.engine) == std::nullopt);
  CHECK(r.text().find("pgwaked_unhealthy_reason{") == std::string::npos);
  r.engine.drain(5s, r.now);
  CHECK(unhealthy_because(r.engine) == "draining");
  CHECK(r.value("pgwaked_draining") == 1);
  CHECK(r.value("pgwaked_unhealthy_reason{reason=\"draining\"}") == 1);
}

TEST_CASE("metrics: OpenMetrics goes to who asks for it, the older format to everybody else") {
  CHECK(accepted_format("") == metrics_format::prometheus);
  CHECK(accepted_format("*/*") == metrics_format::prometheus);
  CHECK(accepted_format("text/plain") == metrics_format::prometheus);
  CHECK(accepted_format("application/openmetrics-text;version=1.0.0,text/plain;q=0.5") ==
        metrics_format::openmetrics);
  CHECK(content_type(metrics_format::openmetrics).starts_with("application/openmetrics-text; version=1.0.0"));
  CHECK(content_type(metrics_format::prometheus).starts_with("text/plain; version=0.0.4"));
}

TEST_CASE("metrics: a label's value cannot end its quotes or its line") {
  metrics_rig r;
  r.took();
  r.connecting = false;
  session_info info;
  info.backend_pid = 42;
  r.engine.connected(info, r.now);
  r.took();
  r.succeed({"42", "f", "a\"b\\c\nd\xff", "SQL_ASCII", "0"});
  r.serve();
  CHECK(r.text().find("database=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\"") != std::string::npos);
}

TEST_CASE("stats: a large answer is made in slices, complete though the hub changes meanwhile") {
  metrics_rig r;
  r.serve();
  const auto a = r.join();
  for (int i = 0; i < 3'000; ++i) r.sub(a, "c" + std::to_string(i));
  r.serve();
  r.read(a);  // its acks: unread they would hold back what it says next
  stats_maker maker(r.engine, {{true, 0}, {}, r.began, 0});
  int slices = 0;
  for (; !maker.step(r.now); ++slices)
    if (slices == 6)
      for (int i = 3'000; i < 9'000; ++i) r.sub(a, "c" + std::to_string(i));  // the table grows
  CHECK(slices > 8);
  rapidjson::Document answer;
  answer.Parse(maker.take().c_str());
  REQUIRE(answer.IsObject());
  std::set<std::string> names;
  for (const auto& c : answer["channels"].GetArray()) CHECK(names.insert(c["name"].GetString()).second);
  CHECK(names.size() == 9'000);
  CHECK(answer["workers"].Size() == 1);
}
