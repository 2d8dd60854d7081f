#include <catch2/catch.hpp>

#include <chrono>
#include <sstream>

#include "daemon/status/exit_codes.hpp"
#include "daemon/status/text.hpp"
#include "daemon/status/view.hpp"
#include "daemon/terminal/text.hpp"

using namespace pgwaked;
using namespace std::chrono_literals;

namespace {

constexpr const char* stats = R"({"t":"stats","version":"0.1.0","hub":"u-1","pid":77,"uptime_s":7384.5,
  "healthy":true,"reason":null,"detail":null,"draining":false,
  "upstream":{"state":"live","server":"db:5432","database":"shop","system_id":"7","backend_pid":412,
    "server_version":150018,"since_s":61.0,"reconnects":2,"attempts":3,"pooler":false,"queue_usage":0.025,
    "channels_listened":3},
  "workers":[
    {"id":1,"pid":10,"uid":33,"name":"puma 1","dialect":"v1","channel_count":3,"channels":["a"],"outbox_bytes":0,
      "outbox_frames":0,"delivered":100,"coalesced":5,"oldest_ms":null,"connected_s":1.0},
    {"id":2,"pid":11,"uid":33,"name":"evil \u001b[31m\u202e\n","dialect":"v1","channel_count":1,"channels":["a"],
      "outbox_bytes":2097152,"outbox_frames":17,"delivered":50,"coalesced":0,"oldest_ms":12500,"connected_s":1.0},
    {"id":3,"pid":12,"uid":33,"name":null,"dialect":"v0","channel_count":1,"outbox_bytes":10,
      "outbox_frames":1,"delivered":1,"coalesced":0,"oldest_ms":3,"connected_s":1.0}],
  "channels":[{"name":"a","workers":1,"active":true},{"name":"b\u0007","workers":2,"active":false}],
  "totals":{"workers":3,"workers_ever":9,"workers_refused":0,"channels":2,"notifications":1000,"unrouted":0,
    "delivered":8000,"coalesced":5,"gaps":1,"acks":3,"nacks":0,"fences":0,"evicted":0,"frames_received":9,
    "unknown_frames":0,"protocol_errors":0,"outbox_bytes":2097162},
  "limits":{"max_workers":4096,"max_channels":50000},"truncated":false})";

hub_status parsed() { return parse_status(stats).value(); }

hub_status ailing(const char* reason) {
  hub_status s;
  s.reason = reason;
  return s;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

bool only_printable(const std::string& text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return false;
  return !has(text, "\u202e");
}

status_view::look plain(std::size_t columns, std::size_t rows) {
  status_view::look how;
  how.columns = columns;
  how.rows = rows;
  how.colours = false;
  how.clock = "12:34:56";
  return how;
}

constexpr pgwake::steady_time t0 = pgwake::steady_time{} + 100s;

}  // namespace

TEST_CASE("text for the terminal: what could move the cursor or lie about order is escaped, the rest stays") {
  CHECK(printable("puma 3, 日本, ñ, 🐘") == "puma 3, 日本, ñ, 🐘");
  CHECK(printable("a\x1b[31mb\n\t\x7f") == "a\\x1b[31mb\\x0a\\x09\\x7f");
  CHECK(printable(std::string_view("nul\0l", 5)) == "nul\\x00l");
  CHECK(printable("\u009b31m \u202e \u2066 \u2028 \ufeff") == "\\u009b31m \\u202e \\u2066 \\u2028 \\ufeff");
  CHECK(printable("bad \xff\xc3 utf8 \xf0\x9f") == "bad \\xff\\xc3 utf8 \\xf0\\x9f");
  CHECK(printable("\U000e0041") == "\\U000e0041");
}

TEST_CASE("text for the terminal: columns are counted, not bytes") {
  CHECK(columns_of("abc") == 3);
  CHECK(columns_of("日本") == 4);
  CHECK(columns_of("e\u0301") == 1);
  CHECK(left_aligned("日本", 6) == "日本  ");
  CHECK(right_aligned("7", 3) == "  7");
  CHECK(columns_of(left_aligned("日本語の名前", 6)) == 6);
  CHECK(cut("abc", 3) == "abc");
  CHECK(columns_of(cut("abcd", 3)) == 3);
  CHECK(cut("abcd", 0).empty());
}

TEST_CASE("status: whatever ails the hub and does not mend itself comes with what to do") {
  for (const auto* reason : {"connecting", "login", "pooler", "recovery", "connection_lost", "silent", "deaf",
                             "probe", "check", "listen", "settings", "a word to come"})
    CHECK_FALSE(advice_for(ailing(reason)).empty());
  for (const auto* reason : {"", "relisten", "operator"}) CHECK(advice_for(ailing(reason)).empty());
  auto full = ailing("connecting");
  full.full = true;
  CHECK(advice_for(full).find("no connection to spare") != std::string::npos);
  full.healthy = true;
  CHECK(advice_for(full).empty());
}

TEST_CASE("text for the terminal: numbers, sizes and times are short") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(short_bytes(0) == "0 B");
  CHECK(short_bytes(999) == "999 B");
  CHECK(short_bytes(1000) == "1.0 KiB");
  CHECK(short_bytes(16 << 20) == "16.0 MiB");
  CHECK(short_bytes(729u << 10) == "729 KiB");
  CHECK(short_duration(350ms) == "350 ms");
  CHECK(short_duration(5s) == "5 s");
  CHECK(short_duration(4200ms) == "4.2 s");
  CHECK(short_duration(185s) == "3 min 5 s");
  CHECK(short_duration(2h + 7min + 3s) == "2 h 7 min");
  CHECK(short_duration(24h * 12 + 3h) == "12 d 3 h");
  CHECK(compact_duration(999ms) == "999ms");
  CHECK(compact_duration(9999ms) == "9.9s");
  CHECK(compact_duration(99s) == "99s");
  CHECK(compact_duration(100s) == "1m");
  CHECK(compact_duration(27h) == "27h");
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.01) == "<0.1");
  CHECK(short_number(7.5) == "7.5");
  CHECK(short_number(12) == "12");
  CHECK(short_number(99'999) == "99999");
  CHECK(short_number(123'456) == "123k");
  CHECK(short_number(1'800'000) == "1.8M");
  for (const double n : {1.0, 9.96, 99.97, 999.6, 99'999.6, 999'499.0, 999'999.0, 1e9, 123e9})
    CHECK(short_number(n).size() <= 5);
}

TEST_CASE("text for the terminal: words are wrapped under their label") {
  CHECK(wrapped("health ", "one two three", 14) == "health one two\n       three\n");
  CHECK(wrapped("x ", "averyverylongword b", 5) == "x averyverylongword\n  b\n");
  CHECK(wrapped("x ", "", 5) == "x \n");
}

TEST_CASE("status says health, upstream, workers, channels and totals") {
  const auto text = status_text(parsed(), "/run/s", 120);
  INFO(text);
  for (const char* part : {"0.1.0",
                           "PID 77",
                           "2 h 3 min",
                           "/run/s",
                           "healthy",
                           "db:5432",
                           "shop",
                           "PostgreSQL 15.18",
                           "412",
                           "1 min 1 s",
                           "2 reconnects",
                           "2.50 %",
                           "3 workers",
                           "2 channels",
                           "1,000 notifications",
                           "8,000 wakes",
                           "puma 1",
                           "v0",
                           "2.0 MiB",
                           "17",
                           "12s",
                           "waiting for LISTEN"})
    CHECK(has(text, part));
  for (const auto& line : lines_of(text)) CHECK(columns_of(line) <= 120);
  // The slowest worker first.
  CHECK(text.find("evil") < text.find("puma 1"));
}

TEST_CASE("control characters in names do not reach the terminal") {
  for (const std::size_t width : {40, 80, 120}) {
    const auto text = status_text(parsed(), "/run/\x1b[2J", width);
    CHECK(only_printable(text));
    if (width >= 80) CHECK(has(text, "\\x1b"));
    for (const auto& line : lines_of(text)) CHECK(columns_of(line) <= std::max<std::size_t>(width, 90));
  }
  status_view view("/run/\x1b[2J");
  view.observe(parsed(), t0);
  CHECK(only_printable(view.screen(plain(80, 24), t0)));
}

TEST_CASE("a degraded hub says why, in words, and what to do") {
  auto s = parsed();
  s.healthy = false;
  s.reason = "login";
  s.detail = "FATAL: password authentication failed for user \"app\"";
  auto text = status_text(s, "/run/s", 100);
  CHECK(has(text, "degraded"));
  CHECK(has(text, "password authentication failed"));
  CHECK(has(text, "pgwaked doctor"));
  // libpq tries twice (with TLS, without) and says each line twice.
  s.detail = "FATAL:  no\n\tpassword from file \"f\"\nFATAL:  no\n\tpassword from file \"f\"\n";
  CHECK(health_text(s) == "degraded: PostgreSQL refuses the login (FATAL:  no; password from file \"f\")");
  s.reason = "a word of tomorrow";
  CHECK(has(health_text(s), "a word of tomorrow"));
  s.draining = true;
  CHECK(has(health_text(s), "draining"));
}

TEST_CASE("status: an answer of another version, or of nobody's, is read as far as it goes") {
  CHECK_FALSE(parse_status("[]"));
  CHECK_FALSE(parse_status("{"));
  const auto s =
      parse_status(R"({"healthy":"yes","pid":-1,"workers":[{},7,{"id":"x"}],"upstream":3})").value();
  CHECK_FALSE(s.healthy);
  CHECK(s.workers.size() == 3);
  CHECK_FALSE(status_text(s, "", 80).empty());
}

TEST_CASE("status: many workers are cut to a hundred rows, and said so") {
  auto s = parsed();
  for (std::uint64_t i = 10; i < 400; ++i) {
    s.workers.emplace_back();
    s.workers.back().id = i;
  }
  s.totals.workers = s.workers.size();
  const auto text = status_text(s, "/s", 100);
  CHECK(lines_of(text).size() < 130);
  CHECK(has(text, "and 293 more workers"));
}

TEST_CASE("watch: fits 80 columns and any number of rows, the slowest first") {
  status_view view("/run/s");
  view.observe(parsed(), t0);
  for (const std::size_t rows : {3, 10, 24, 60}) {
    for (const std::size_t columns : {20, 40, 79, 80, 132, 300}) {
      const auto lines = lines_of(view.screen(plain(columns, rows), t0));
      INFO(rows << " rows, " << columns << " columns");
      if (rows >= 10) CHECK(lines.size() == rows);
      for (const auto& line : lines) CHECK(columns_of(line) <= columns);
    }
  }
  const auto text = view.screen(plain(80, 24), t0);
  INFO(text);
  CHECK(text.find("evil") < text.find("puma 1"));
  for (const char* part : {"HEALTHY", "shop at db:5432", "12:34:56", "2.0 MiB", "12s"})
    CHECK(has(text, part));
}

TEST_CASE("watch: rates are per second, and start over with another run of the hub") {
  status_view view("/run/s");
  view.observe(parsed(), t0);
  auto s = parsed();
  s.totals.notifications += 3000;
  s.totals.delivered += 42'000;
  s.workers[0].delivered += 868;
  view.observe(s, t0 + 2s);
  const auto text = view.screen(plain(80, 24), t0 + 2s);
  INFO(text);
  CHECK(has(text, "1500"));
  CHECK(has(text, "21000"));
  CHECK(has(text, " 434"));
  s.hub = "u-2";
  s.totals.notifications = 10;
  view.observe(s, t0 + 3s);
  CHECK_FALSE(has(view.screen(plain(80, 24), t0 + 3s), "1500"));
}

TEST_CASE("watch: a hub that is gone is said so, with what was seen last below; the exit code follows") {
  status_view view("/run/s");
  view.unreachable({hub_failure::kind::absent, "no hub at /run/s"}, t0);
  CHECK(view.exit_code() == status_not_running);
  CHECK(has(view.screen(plain(80, 24), t0 + 5s), "NOT RUNNING for 5 s"));
  view.observe(parsed(), t0 + 6s);
  CHECK(view.exit_code() == status_healthy);
  view.unreachable({hub_failure::kind::silent, "silent"}, t0 + 7s);
  CHECK(view.exit_code() == status_no_answer);
  const auto text = view.screen(plain(80, 24), t0 + 8s);
  CHECK(has(text, "NO ANSWER for 1 s"));
  CHECK(has(text, "puma 1"));
  view.unreachable({hub_failure::kind::no_socket, "the hub (PID 7) is stopping"}, t0 + 8s);
  CHECK(view.exit_code() == status_degraded);
  CHECK(has(view.screen(plain(80, 24), t0 + 8s), "STOPPING OR STARTING"));
  auto s = parsed();
  s.healthy = false;
  view.observe(s, t0 + 9s);
  CHECK(view.exit_code() == status_degraded);
}

TEST_CASE("watch: an answer that is late is said so") {
  status_view view("/run/s");
  view.observe(parsed(), t0);
  CHECK_FALSE(has(view.screen(plain(80, 24), t0 + 2s), "late"));
  CHECK(has(view.screen(plain(80, 24), t0 + 3s), "answers late: 3 s old"));
}

TEST_CASE("watch: scrolling stays inside the table; Tab shows channels") {
  status_view view("/run/s");
  auto s = parsed();
  for (std::uint64_t i = 10; i < 60; ++i) {
    s.workers.emplace_back();
    s.workers.back().id = i;
    s.workers.back().name = "w" + std::to_string(i);
  }
  view.observe(s, t0);
  view.screen(plain(80, 24), t0);
  CHECK(view.page() == 16);
  view.move(1000);
  const auto end = view.screen(plain(80, 24), t0);
  CHECK(has(end, "w59"));
  CHECK_FALSE(has(end, "evil"));
  view.move(-1000);
  CHECK(has(view.screen(plain(80, 24), t0), "evil"));
  view.switch_table();
  CHECK(has(view.screen(plain(80, 24), t0), "b\\x07"));
}

TEST_CASE("watch: the order of workers is chosen by key, and named below the table") {
  status_view view("/run/s");
  view.observe(parsed(), t0);
  const auto first_of = [&] {
    const auto text = view.screen(plain(120, 24), t0);
    const auto table = text.substr(text.find("WORKER"));
    return lines_of(table).at(1).substr(0, 6);
  };
  const auto sorted_by = [&](const char* name) {
    return has(view.screen(plain(120, 24), t0), "s sort: " + std::string(name));
  };
  // By unsent bytes, age, rate (here: delivered so far), channels, name (nameless first), number.
  const std::vector<std::pair<const char*, const char*>> orders = {
      {"unsent", "     2"},   {"oldest", "     2"}, {"out/s", "     1"},
      {"channels", "     1"}, {"name", "     3"},   {"number", "     1"}};
  for (int round = 0; round < 2; ++round)
    for (const auto& [name, first] : orders) {
      INFO(name);
      CHECK(sorted_by(name));
      CHECK(first_of() == first);
      view.next_order();
    }
  view.switch_table();
  CHECK(sorted_by("workers"));
  view.next_order();
  CHECK(sorted_by("name"));
  const auto text = view.screen(plain(80, 24), t0);
  CHECK(text.find("  a ") < text.find("b\\x07"));
}

TEST_CASE("watch: the selection follows its worker, is cleared with it, and never names another hub's") {
  status_view view("/run/s");
  auto s = parsed();
  view.observe(s, t0);
  view.ask_evict(t0);
  CHECK_FALSE(view.asks());
  CHECK(has(view.screen(plain(80, 24), t0), "select a worker first"));
  CHECK_FALSE(has(view.screen(plain(80, 24), t0 + 6s), "select a worker first"));
  view.move(1);
  CHECK(has(view.screen(plain(80, 24), t0), "    >2"));
  view.move(1);
  view.move(1);
  view.move(1);
  CHECK(has(view.screen(plain(80, 24), t0), "    >1"));
  s.workers[0].outbox_bytes = 100U << 20U;
  view.observe(s, t0 + 1s);
  CHECK(has(view.screen(plain(80, 24), t0 + 1s), "    >1"));  // now in the first row
  view.ask_evict(t0 + 1s);
  REQUIRE(view.asks());
  CHECK(has(view.screen(plain(80, 24), t0 + 1s), "Evict worker 1 (puma 1, PID 10)? y yes, any other key no"));
  CHECK_FALSE(view.answer(false));
  CHECK_FALSE(view.asks());
  view.ask_evict(t0 + 1s);
  CHECK(view.answer(true) == 1);
  CHECK_FALSE(view.asks());
  view.tell("worker 1 is evicted", t0 + 1s);
  CHECK(has(view.screen(plain(80, 24), t0 + 1s), "worker 1 is evicted"));

  view.ask_evict(t0 + 1s);
  auto other = s;
  other.hub = "u-2";
  view.observe(other, t0 + 2s);
  CHECK_FALSE(view.asks());
  CHECK_FALSE(has(view.screen(plain(80, 24), t0 + 2s), ">1"));
  view.move(1);
  other.workers.erase(other.workers.begin());
  view.observe(other, t0 + 3s);
  CHECK_FALSE(has(view.screen(plain(80, 24), t0 + 3s), ">"));
}
