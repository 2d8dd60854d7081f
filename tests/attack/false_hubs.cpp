// Something else at the hub's path. The library must find out, listen by itself, and lose nothing silently.
#include <sys/socket.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "attack/attack.hpp"
#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/cluster.hpp"

namespace pgwake::attack {
namespace {

using test::cluster;
using test::fake_hub;
using say = std::function<bool(std::string_view)>;

constexpr long most_kib = 96L * 1'024;

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
  return 0;
}

// A stream of numbers must reach the application whatever the hub does: each once and in order, or after a
// gap.
std::string against(fake_hub::script play) {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  fake_hub hub(std::move(play));
  const auto before = resident_kib();
  std::optional<test::witness> w(std::in_place, hub.path(), pg.conninfo(database),
                                 test::client_values{{"unhealthy_grace", "300ms"},
                                                     {"hub_user", "root"},
                                                     {"application_name", "attack-own"},
                                                     {"return_delay", "100ms"},
                                                     {"return_delay_max", "500ms"}});
  if (!w->client().subscribe("numbers", 20s)) return "the library never serves";
  std::atomic<int> published{0};
  test::background numbers([&](const test::background::stop_flag& stop) {
    auto c = pg.connect(database);
    while (!stop) {
      c.notify("numbers", std::to_string(++published));
      std::this_thread::sleep_for(5ms);
    }
  });
  w->take(2s);
  const auto grown = resident_kib() - before;
  numbers.stop();
  const auto last = std::to_string(published);
  const bool arrived =
      w->await_wake("numbers", last, 20s) ||
      (!w->events().empty() && w->await_gap("numbers", 1s) && w->await_wake("numbers", last, 1s));
  test::ledger books;
  books.take(w->events());
  if (!arrived)
    return "number " + last + " did not arrive, the last is " + std::to_string(books.last("numbers"));
  if (!books.faults().empty()) return books.faults().front();
  if (grown > most_kib) return "the library grew by " + std::to_string(grown / 1'024) + " MiB";
  const auto took = test::time_of([&] { w.reset(); });
  if (took > 5s) return "pgwake_close took " + std::to_string(took.count()) + " ms";
  return {};
}

// Says hello back and is well, then `what` again and again.
std::string repeating(std::string what) {
  return against([what](int, const say& tell) {
    tell(fake_hub::welcome());
    tell(fake_hub::healthy);
    while (tell(what)) {
    }
  });
}

std::string silent() {
  return against([](int fd, const say&) {
    char c = 0;
    while (recv(fd, &c, 1, 0) > 0) {
    }
  });
}
std::string closes() {
  return against([](int, const say&) {});
}
std::string closes_after_welcome() {
  return against([](int, const say& tell) { tell(fake_hub::welcome()); });
}
std::string garbage() {
  return against([](int fd, const say&) {
    const std::string bytes(100'000, '\xfe');
    while (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
  });
}
std::string largest_frames() {
  return repeating(R"({"t":"wake","q":"numbers","p":")" + std::string(4'000'000, 'x') + "\"}");
}
std::string wakes_unasked() { return repeating(R"({"t":"wake","q":"else","p":"1","by":1})"); }
std::string acks_unasked() { return repeating(R"({"t":"ack","q":"else"})"); }
std::string nacks_unasked() { return repeating(R"({"t":"nack","q":"else","code":"limit","reason":"no"})"); }
std::string fences() { return repeating(R"({"t":"fence","id":1})"); }
std::string pongs() { return repeating(R"({"t":"pong","id":1})"); }
std::string welcomes() { return repeating(fake_hub::welcome()); }
std::string unknown() { return repeating(R"({"t":"new","x":[1,2,3]})"); }
std::string flapping() {
  return against([](int, const say& tell) {
    tell(fake_hub::welcome());
    while (tell(fake_hub::healthy) && tell(fake_hub::ill)) std::this_thread::sleep_for(1ms);
  });
}
std::string never_acks() {
  return against([](int, const say& tell) {
    tell(fake_hub::welcome());
    while (tell(fake_hub::healthy)) std::this_thread::sleep_for(100ms);
  });
}
std::string drips() {
  return against([](int fd, const say&) {
    const auto bytes = test::frame_of(fake_hub::welcome());
    for (const char c : bytes) {
      if (send(fd, &c, 1, MSG_NOSIGNAL) != 1) return;
      std::this_thread::sleep_for(50ms);
    }
  });
}
std::string nested() { return repeating(R"({"t":"status","healthy":)" + std::string(100'000, '[') + "}"); }

}  // namespace

const std::vector<deception>& false_hubs() {
  static const std::vector<deception> all{
      {"hub-silent", "false hub", "takes the connection and is silent", silent},
      {"hub-closes", "false hub", "closes at once", closes},
      {"hub-welcome-closes", "false hub", "closes after the welcome", closes_after_welcome},
      {"hub-garbage", "false hub", "bytes that are no frames", garbage, true},
      {"hub-large", "false hub", "wakes of 4 MB without an end", largest_frames, true},
      {"hub-wakes", "false hub", "wakes of what nobody subscribed", wakes_unasked},
      {"hub-acks", "false hub", "acks that nobody waits for", acks_unasked},
      {"hub-nacks", "false hub", "nacks that nobody waits for", nacks_unasked},
      {"hub-fences", "false hub", "fences that nobody sent", fences},
      {"hub-pongs", "false hub", "pongs that nobody asked for", pongs},
      {"hub-welcomes", "false hub", "one welcome after another", welcomes},
      {"hub-unknown", "false hub", "frames of an unknown kind", unknown},
      {"hub-flapping", "false hub", "well and ill in turn", flapping},
      {"hub-never-acks", "false hub", "healthy, and acks nothing", never_acks},
      {"hub-drips", "false hub", "its welcome a byte at a time", drips},
      {"hub-nested", "false hub", "JSON nested 100,000 deep", nested},
  };
  return all;
}

}  // namespace pgwake::attack
