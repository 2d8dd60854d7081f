// The page at `/` in a real browser. Its pictures are left beside the build, under screenshots/, to be looked
// at.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "integration/browser.hpp"
#include "integration/metrics_rig.hpp"
#include "support/background.hpp"
#include "support/skip.hpp"
#include "support/worker_pool.hpp"

using namespace pgwake::test;

namespace {

// True, and a line that CTest takes for a skipped test, where there is no browser.
bool nothing_to_do() {
  if (browser::installed()) return false;
  say_skipped("Chromium is not installed: apt-get install chromium");
  return true;
}

std::string picture(const std::string& name) {
  const std::string directory = PGWAKE_SCREENSHOTS;
  mkdir(directory.c_str(), 0755);
  return directory + "/" + name + ".png";
}

// Workers that subscribe, three of them too busy to read now and then, and a publisher.
class traffic {
 public:
  explicit traffic(metrics_rig& r)
      : workers_([&r](const background::stop_flag& stop) { run_workers(r, stop); }),
        publisher_([&r](const background::stop_flag& stop) { run_publisher(r, stop); }) {}

 private:
  static void run_workers(metrics_rig& r, const background::stop_flag& stop) {
    worker_pool pool(r->hub().socket(), 24);
    for (std::size_t i = 0; i < pool.size(); ++i)
      for (const auto& c : {std::string("all"), "c" + std::to_string(i % 8)}) pool.sub(i, c);
    std::vector<raw_worker> lazy;
    for (int i = 0; i < 3; ++i) {
      lazy.push_back(r->worker("lazy"));
      lazy.back().subscribe("all");
    }
    while (!stop) {
      pool.run_until([&] { return stop.load(); }, 4s);
      for (auto& worker : lazy) worker.until_pong(10s);
    }
  }
  static void run_publisher(metrics_rig& r, const background::stop_flag& stop) {
    auto sql = r->publisher();
    for (int round = 0; !stop; ++round) {
      const auto n = std::to_string(20 + (round * 7) % 31);
      sql.exec(
          "SELECT pg_notify('c' || n % 8, CASE WHEN n % 3 > 0 THEN repeat('x', 80) ELSE '' END) "
          "FROM generate_series(1, " +
          n + ") n");
      sql.exec("SELECT pg_notify('all', n || repeat('y', 7000)) FROM generate_series(1, 4) n");
      eventually(80ms, [&] { return stop.load(); });
    }
  }

  background workers_;
  background publisher_;
};

}  // namespace

TEST_CASE("page: shows what the hub does, live, asks nobody else, and complains of nothing") {
  if (nothing_to_do()) return;
  metrics_rig r({.through_proxy = true});
  browser b;
  b.size(1280, 1200);
  {
    traffic t(r);
    b.open(r.url());
    REQUIRE(b.eventually("document.body.dataset.state === 'healthy'", 15s));
    CHECK(b.evaluate("document.querySelector('#state').innerText") == "Healthy");
    CHECK(b.evaluate("document.querySelector('#database').textContent") == r->database());
    CHECK_THAT(b.evaluate("document.title"),
               Catch::StartsWith(r->database() + " on ") && Catch::EndsWith(": healthy"));
    CHECK(b.evaluate("document.querySelector('#about').textContent").find("PostgreSQL 1") !=
          std::string::npos);
    REQUIRE(b.eventually("document.querySelector('#tile-workers .big').textContent === '27'", 15s));
    CHECK(b.evaluate("document.querySelector('#tile-workers .sub').textContent") == "on 9 channels");
    // The numbers move, and are near those of /metrics.
    REQUIRE(
        b.eventually("parseFloat(document.querySelector('#tile-notifications .big').textContent) > 50", 15s));
    REQUIRE(
        b.eventually("/[0-9] (µs|ms)/.test(document.querySelector('#tile-latency .big').textContent)", 15s));
    REQUIRE(
        b.eventually("/[0-9] (µs|ms|s)/.test(document.querySelector('#tile-acks .big').textContent)", 15s));
    // Every plot has its lines, over half a minute.
    REQUIRE(b.eventually("past.length >= 30", 60s));
    for (const auto* plot : {"rate", "latency", "backlog"})
      CHECK(b.evaluate("document.querySelectorAll('#plot-" + std::string(plot) +
                       " path[stroke^=\"var\"]').length >= 5") == "true");
    CHECK(b.evaluate("document.querySelectorAll('#plot-spread rect').length") == "22");
    CHECK(b.evaluate("document.querySelectorAll('#limits .row').length") == "6");
    CHECK(b.evaluate("[...document.querySelectorAll('svg [d]')].every(p => !/NaN|undefined|Infinity/.test("
                     "p.getAttribute('d')))") == "true");
    CHECK(b.evaluate("/NaN|undefined|Infinity/.test(document.body.innerText)") == "false");
    CHECK(b.evaluate("document.documentElement.scrollWidth <= innerWidth") == "true");
    b.screenshot(picture("page-light"));
    b.dark(true);
    REQUIRE(b.eventually("getComputedStyle(document.body).backgroundColor === 'rgb(12, 16, 23)'", 5s));
    b.evaluate(
        "document.querySelector('#plot-rate svg').dispatchEvent(new PointerEvent('pointermove', {clientX: "
        "420, "
        "clientY: 300}))");
    CHECK(b.evaluate("document.querySelectorAll('#plot-latency circle').length") == "3");
    b.screenshot(picture("page-dark"));
  }
  CHECK(b.complaints() == std::vector<std::string>{});
  CHECK(b.requests().size() > 30);
  for (const auto& url : b.requests()) CHECK((url == r.url() || url == r.url("/metrics")));
}

TEST_CASE("page: says when the hub is degraded, why, what to do, and when it is gone") {
  if (nothing_to_do()) return;
  metrics_rig r({.through_proxy = true});
  browser b;
  b.size(1000, 900);
  b.open(r.url());
  REQUIRE(b.eventually("document.body.dataset.state === 'healthy'", 15s));
  CHECK(b.evaluate("document.querySelector('#banner').hidden") == "true");
  r->proxy().refuse();
  r->proxy().close_all();
  REQUIRE(b.eventually("document.body.dataset.state === 'degraded'", 15s));
  REQUIRE(b.eventually("document.querySelector('#state').innerText === 'Degraded: connecting'", 15s));
  const auto banner = b.evaluate("document.querySelector('#banner').innerText");
  CHECK(banner.find("PostgreSQL cannot be reached") != std::string::npos);
  CHECK(banner.find("pgwaked doctor") != std::string::npos);
  b.screenshot(picture("page-degraded"));
  r->proxy().refuse(false);
  REQUIRE(b.eventually("document.body.dataset.state === 'healthy'", 20s));
  REQUIRE(b.eventually("/\\+1 lately/.test(document.querySelector('#events').innerText)", 5s));
  r->hub().kill();
  REQUIRE(b.eventually("document.body.dataset.state === 'silent'", 15s));
  // Another hub in its place: the plots begin anew.
  r->hub().start();
  REQUIRE(b.eventually("document.body.dataset.state === 'healthy'", 15s));
  CHECK(b.evaluate("past.length < 8") == "true");
}

TEST_CASE("page: fits a telephone, and lists every metric with its help") {
  if (nothing_to_do()) return;
  metrics_rig r;
  browser b;
  b.size(390, 844);
  b.open(r.url());
  REQUIRE(b.eventually("document.body.dataset.state === 'healthy'", 15s));
  CHECK(b.evaluate("document.documentElement.scrollWidth <= innerWidth") == "true");
  b.evaluate("document.querySelector('#all summary').click()");
  REQUIRE(b.eventually("document.querySelectorAll('#all tr').length > 40", 5s));
  CHECK(b.evaluate(
            "[...document.querySelectorAll('#all tr td:last-child')].every(e => e.textContent.length > 5)") ==
        "true");
  b.evaluate("document.querySelector('#all input').value = 'evicted'");
  b.evaluate("document.querySelector('#all input').dispatchEvent(new Event('input'))");
  CHECK(b.evaluate("document.querySelectorAll('#all tr').length > 0") == "true");
  CHECK(b.evaluate("document.querySelectorAll('#all tr').length < 5") == "true");
  b.screenshot(picture("page-narrow"));
  CHECK(b.complaints() == std::vector<std::string>{});
}
