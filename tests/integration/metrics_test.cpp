#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "integration/metrics_rig.hpp"
#include "support/sanitizer.hpp"
#include "support/worker_pool.hpp"

using namespace pgwake::test;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? info.st_mode : 0;
}

run_result run_with_metrics(const temp_dir& home, const std::string& address) {
  return run(pgwaked_command({"run", "--database", cluster::shared().conninfo(), "--socket",
                              home / "hub.sock", "--metrics-listen", address}));
}

}  // namespace

TEST_CASE("metrics: what a hub does shows in what it counts and measures") {
  metrics_rig r;
  auto worker = r->worker("puma 1");
  auto old = r->v0();
  worker.subscribe("orders");
  old.sub("mail");
  old.expect("ack");
  r->notify("orders", "x");
  worker.expect_wake("orders", "x");
  worker.sub("");
  worker.expect("nack");

  CHECK(r.value("pgwaked_healthy") == 1);
  CHECK(r.value("pgwaked_workers{dialect=\"v0\"}") == 1);
  CHECK(r.value("pgwaked_workers{dialect=\"v1\"}") == 1);
  CHECK(r.value("pgwaked_subscriptions") == 2);
  CHECK(r.value("pgwaked_notifications_total") == 1);
  CHECK(r.value("pgwaked_nacks_total") == 1);
  CHECK(r.value("pgwaked_ack_latency_seconds_count") == 2);
  CHECK(r.value("pgwaked_ack_latency_seconds_sum") > 0);
  REQUIRE_EVENTUALLY(r.value("pgwaked_wake_latency_seconds_count") == 1, 3s);
  CHECK(r.value("pgwaked_wake_latency_seconds_sum") > 0);
  CHECK(r.value("pgwaked_wake_latency_seconds_sum") * 1000 < static_cast<double>(at_load(1s).count()));
  CHECK(r.value("process_resident_memory_bytes") > 1e6);
  CHECK(r.value("process_cpu_seconds_total") > 0);

  REQUIRE(r->terminate());
  REQUIRE_EVENTUALLY(r.value("pgwaked_upstream_reconnects_total") == 1, 10s);
  worker.await_health();
  REQUIRE_EVENTUALLY(r.value("pgwaked_gaps_total") == 2, 5s);
}

TEST_CASE("metrics: OpenMetrics to whom asks for it, the older format to everybody else, by HTTP's rules") {
  metrics_rig r;
  const auto plain = r.ask("/metrics");
  CHECK(plain.status == 200);
  CHECK(plain.has_header("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
  CHECK(plain.has_header("Vary: Accept"));
  CHECK(plain.has_header("Connection: close"));
  const auto open = r.ask("/metrics?x=y", "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n");
  CHECK(open.has_header("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
  CHECK(open.body.find("# TYPE pgwaked_notifications counter\n") != std::string::npos);
  CHECK(open.body.ends_with("# EOF\n"));

  const auto head = r.ask("/metrics", "", "HEAD");
  CHECK(head.status == 200);
  CHECK(head.body.empty());
  CHECK(head.head.find("Content-Length: ") != std::string::npos);
  CHECK_FALSE(head.has_header("Content-Length: 0"));

  const auto page = r.ask("/");
  CHECK(page.status == 200);
  CHECK(page.has_header("Content-Type: text/html; charset=utf-8"));
  CHECK(page.head.find("Content-Security-Policy: default-src 'none'") != std::string::npos);
  CHECK(page.body.starts_with("<!DOCTYPE html>"));

  CHECK(r.ask("/nothing").status == 404);
  CHECK(r.ask("/metrics/").status == 404);
  for (const auto* method : {"POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
    const auto refused = r.ask("/", "Content-Length: 4\r\n\r\nbody", method);
    CHECK(refused.status == 405);
    CHECK(refused.has_header("Allow: GET, HEAD"));
  }
}

TEST_CASE("metrics: a browser that was led here by another name is not answered") {
  metrics_rig r;
  for (const auto* host : {"evil.example", "evil.example:9187", "localhost.evil.example", "127.0.0.1.nip.io",
                           "[::2]:80", "localhost@evil.example", "localhost:x@evil.example", "", ":9187"}) {
    const auto answer = r.ask("/metrics", "Host: " + std::string(host) + "\r\n");
    CHECK(answer.status == 421);
    CHECK(answer.body.find("pgwaked_") == std::string::npos);
  }
  for (const auto* host : {"localhost", "localhost:9187", "127.0.0.1:1", "[::1]", "[::1]:9187"})
    CHECK(r.ask("/healthz", "Host: " + std::string(host) + "\r\n").status == 200);
  // No Host is for HTTP/1.0, which no browser speaks; two are for nobody.
  const auto send = [&](std::string_view bytes) {
    http_connection connection(r.address());
    connection.send(bytes);
    return connection.receive().status;
  };
  CHECK(send("GET /metrics HTTP/1.1\r\n\r\n") == 400);
  CHECK(send("GET /metrics HTTP/1.0\r\n\r\n") == 200);
  CHECK(send("GET /metrics HTTP/1.0\r\nHost:\r\n\r\n") == 421);
  CHECK(send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n") == 400);
  CHECK(send("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") == 404);
}

TEST_CASE(
    "metrics: beyond the loopback whoever has the token reads them, under any name, and a reload changes "
    "it") {
  const temp_dir home;
  const auto file = home / "token";
  const std::string old_token = "0123456789abcdef";
  const std::string new_token = "fedcba9876543210";
  write_file(file, old_token + "\n");
  const int port = random_port();
  rig r({.arguments = {"--metrics-listen", "0.0.0.0:" + std::to_string(port), "--metrics-token-file", file}});
  const auto ask = [&](const std::string& target, const std::string& token) {
    return http_ask(
        {.port = port}, target,
        "Host: hub7.example:9187\r\n" + (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n"));
  };
  for (const auto* target : {"/", "/metrics", "/nothing"}) {
    CHECK(ask(target, "").status == 401);
    CHECK(ask(target, new_token).status == 401);
  }
  CHECK(ask("/metrics", "").has_header("WWW-Authenticate: Bearer"));
  CHECK(ask("/metrics", "").body.find("pgwaked_healthy") == std::string::npos);
  CHECK(ask("/metrics", old_token).body.find("\npgwaked_healthy 1\n") != std::string::npos);
  CHECK(ask("/", old_token).status == 200);
  for (const auto* target : {"/livez", "/readyz", "/healthz"}) CHECK(ask(target, "").status == 200);

  // The file is wrong: refused, the old one holds. Then a new one.
  write_file(file, "short\n");
  r.hub().child().signal(SIGHUP);
  REQUIRE_EVENTUALLY(r.hub().log().find("reload refused") != std::string::npos, 5s);
  CHECK(ask("/metrics", old_token).body.find("pgwaked_reloads_total{result=\"refused\"} 1\n") !=
        std::string::npos);
  write_file(file, new_token + "\n");
  r.hub().child().signal(SIGHUP);
  REQUIRE_EVENTUALLY(ask("/metrics", new_token).status == 200, 5s);
  CHECK(ask("/metrics", old_token).status == 401);
  CHECK(r.hub().log().find(new_token) == std::string::npos);
  CHECK(r.hub().log().find(old_token) == std::string::npos);
}

TEST_CASE("metrics: a flood of connections to the port keeps no scrape out, and no worker waiting") {
  metrics_rig r;
  auto worker = r->worker();
  worker.subscribe("c");
  const int before = r->hub().child().descriptor_count();
  std::atomic<bool> go_on{true};
  std::atomic<int> connections{0};
  const auto flood = [&](std::string_view bytes) {
    std::deque<http_connection> held;
    while (go_on) {
      try {
        held.emplace_back(r.address());
        held.back().send(bytes);
        ++connections;
      } catch (const std::runtime_error&) {
        held.clear();  // no descriptors or ports left here
      }
      if (held.size() > 300) held.pop_front();
    }
  };
  std::thread silent(flood, "");
  std::thread halfway(flood, "GET /metrics HTTP/1.1\r\nHost: loc");
  int scrapes = 0;
  int answered = 0;
  const auto until = clock::now() + 2s;
  while (clock::now() < until || scrapes < 20) {
    ++scrapes;
    if (r.ask("/metrics").status == 200) ++answered;
    CHECK(r->hub().child().descriptor_count() <= before + 100);
  }
  r->notify("c");
  worker.expect_wake("c");
  go_on = false;
  silent.join();
  halfway.join();
  INFO(connections << " connections, " << scrapes << " scrapes");
  CHECK(connections > 200);
  CHECK(answered == scrapes);
}

TEST_CASE("metrics: requests that are none, and requests without end, are told so and closed") {
  metrics_rig r;
  auto worker = r->worker();
  worker.subscribe("c");
  const auto send = [&](std::string_view bytes) {
    http_connection connection(r.address());
    connection.send(bytes);
    return connection.receive();
  };
  CHECK(send("how do you do\r\n\r\n").status == 400);
  CHECK(send("GET / HTTP/9.9\r\n\r\n").status == 400);
  CHECK(send(std::string(64, '\0')).status == 400);
  CHECK(send("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n").status == 400);
  CHECK(send("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n").status == 431);
  CHECK(send("GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n").status == 431);
  CHECK(send("GET /healthz HTTP/1.0\r\n\r\n").status == 200);
  CHECK(send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n").status == 200);
  r->notify("c");
  worker.expect_wake("c");
}

TEST_CASE("metrics: clients that hold their connections cannot keep others out, nor cost more than a few") {
  metrics_rig r;
  auto worker = r->worker();
  worker.subscribe("c");
  const int before = r->hub().child().descriptor_count();
  std::vector<http_connection> slow;
  for (int i = 0; i < 200; ++i) {
    slow.emplace_back(r.address());
    if (i % 2 == 0) slow.back().send("GET /metrics HTTP/1.1\r\nHost: loc");
  }
  CHECK(r.ask("/healthz").status == 200);
  CHECK(r->hub().child().descriptor_count() <= before + 100);
  r->notify("c");
  worker.expect_wake("c");
  CHECK(slow.front().closed(2s));  // the oldest made room
  // Nobody stays for longer than ten seconds, however many bytes come.
  const auto begun = clock::now();
  while (!slow.back().closed(1s) && clock::now() - begun < 20s) slow.back().send("x");
  CHECK(slow.back().closed(1s));
  REQUIRE_EVENTUALLY(r->hub().child().descriptor_count() == before, 12s);
}

TEST_CASE("metrics: a client that asks and does not read holds no more than its answer") {
  metrics_rig r;
  std::vector<http_connection> deaf;
  for (int i = 0; i < 200; ++i) {
    deaf.emplace_back(r.address());
    deaf.back().send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  CHECK(r.ask("/healthz").status == 200);
  if (!sanitized) CHECK(r->hub().child().rss_kib() < 64 * 1024);
}

TEST_CASE("metrics: /readyz and /healthz follow the hub's health and say why it is gone, /livez its life") {
  metrics_rig r({.through_proxy = true});
  CHECK(r.ask("/readyz").status == 200);
  auto healthy = r.ask("/healthz");
  CHECK(healthy.status == 200);
  CHECK(healthy.body == "healthy\n");
  r->proxy().refuse();
  r->proxy().close_all();
  REQUIRE_EVENTUALLY(r.ask("/healthz").status == 503, 5s);
  REQUIRE_EVENTUALLY(r.ask("/healthz").body.find("unhealthy: connecting") == 0, 5s);
  CHECK(r.ask("/readyz").status == 503);
  CHECK(r.ask("/livez").status == 200);
  CHECK(r.value("pgwaked_healthy") == 0);
  REQUIRE_EVENTUALLY(r.value("pgwaked_upstream_failures_total{reason=\"connecting\"}") > 0, 5s);
  CHECK(r.value("pgwaked_unhealthy_reason{reason=\"connecting\"}") == 1);
  r->proxy().refuse(false);
  REQUIRE_EVENTUALLY(r.ask("/healthz").status == 200, 10s);
}

TEST_CASE("metrics: by Unix socket, which is as safe as the hub's own") {
  const temp_dir home;
  const auto path = home / "metrics.sock";
  const http_address where{.path = path};
  {
    // A stale socket is replaced.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    close(fd);
  }
  hub_daemon hub({.database = cluster::shared().conninfo(),
                  .arguments = {"--metrics-listen", "unix:" + path, "--socket-mode", "0600"}});
  CHECK((mode_of(path) & 07777U) == 0600);
  CHECK(metric(where, "pgwaked_healthy") == 1);
  // Nobody's browser comes by a Unix socket, so any name will do.
  CHECK(http_ask(where, "/healthz", "Host: anything\r\n").status == 200);

  // A second hub leaves it alone.
  const auto second = run_with_metrics(home, "unix:" + path);
  CHECK(second.exit_code == 1);
  CHECK(second.err.find("--metrics-listen unix:PATH") != std::string::npos);
  CHECK(http_ask(where, "/healthz").status == 200);

  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE_EVENTUALLY(mode_of(path) != 0, 5s);
  CHECK(http_ask(where, "/healthz").status == 200);
  CHECK(hub.stop() == 0);
  CHECK(mode_of(path) == 0);
}

TEST_CASE("metrics: an address that cannot be had is named, and nothing is touched") {
  const temp_dir home;
  write_file(home / "plain", "precious");
  const auto plain = run_with_metrics(home, "unix:" + (home / "plain"));
  CHECK(plain.exit_code == 1);
  CHECK(plain.err.find(home / "plain") != std::string::npos);
  CHECK(read_file(home / "plain") == "precious");

  const auto same = run_with_metrics(home, "unix:" + (home / "hub.sock"));
  CHECK(same.exit_code == 1);
  CHECK(same.err.find("a socket of their own") != std::string::npos);

  metrics_rig taken;
  const auto second = run_with_metrics(home, "127.0.0.1:" + std::to_string(taken.address().port));
  CHECK(second.exit_code == 1);
  CHECK(second.err.find("Address already in use") != std::string::npos);
  CHECK(second.err.find(std::to_string(taken.address().port)) != std::string::npos);
  CHECK(taken.ask("/healthz").status == 200);
}

TEST_CASE("metrics: no address, no metrics") {
  rig r;
  CHECK(r.hub().log().find("metrics") == std::string::npos);
}

TEST_CASE("metrics: with a thousand workers a scrape takes milliseconds, and no series more") {
  metrics_rig r;
  const auto before = r.ask("/metrics").body;
  worker_pool pool(r->hub().socket(), 1000);
  for (std::size_t i = 0; i < 1000; ++i)
    for (const auto* c : {"a", "b", "c"}) pool.sub(i, c + std::to_string(i % 300));
  REQUIRE(pool.run_until([&] { return pool.sum(&worker_pool::member::acks) == 3000; }, 20s));
  auto best = 1h + milliseconds(0);
  std::string body;
  for (int i = 0; i < 20; ++i) best = std::min(best, time_of([&] { body = r.ask("/metrics").body; }));
  INFO("the fastest of twenty: " << best.count() << " ms");
  if (!sanitized) CHECK(best < at_load(20ms));
  CHECK(count_of(body, "\n") == count_of(before, "\n"));
}
