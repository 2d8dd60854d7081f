#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/src/core/failover.hpp"

namespace pgwake::test {

// A failover core with its time, and its actions as short words: "connect", "close", "sub c", "own+", "own-",
// "want c", "say TOKEN:1", "slot", "-slot", "c=1", "c!hub_lost", "c" (durable), "#hub", "ok 1", "timeout 1",
// "nack 1", "ended 1".
class failover_rig {
 public:
  explicit failover_rig(client::failover_settings s = defaults()) : core(std::move(s), 1) {}

  static client::failover_settings defaults() {
    client::failover_settings s;
    s.secret = [n = std::make_shared<std::uint64_t>(0)] { return ++*n; };
    s.return_delay = millis{1'000};
    return s;
  }

  static constexpr int own_backend = 77;

  client::failover core;
  steady_time now{std::chrono::hours(1)};
  client::actions out;

  std::vector<std::string> words() {
    std::vector<std::string> said;
    for (auto& a : std::exchange(out, {})) std::visit([&](auto& x) { said.push_back(word(x)); }, a);
    return said;
  }
  // What the application sees alone.
  std::string seen() {
    std::string text;
    for (const auto& w : words()) {
      const bool action = w == "connect" || w == "close" || w.rfind("sub ", 0) == 0 ||
                          w.rfind("unsub ", 0) == 0 || w == "hello" || w.rfind("own", 0) == 0 ||
                          w.rfind("want ", 0) == 0 || w.rfind("unwant ", 0) == 0 || w.rfind("say ", 0) == 0 ||
                          w == "slot" || w == "-slot" || w.rfind("forget ", 0) == 0;
      if (!action) text += (text.empty() ? "" : " ") + w;
    }
    return text;
  }
  bool did(const std::string& word) {
    const auto all = words();
    return std::find(all.begin(), all.end(), word) != all.end();
  }

  void start() { core.start(now, out); }
  void pass(millis time, bool quiet = true) {
    // Every deadline on the way is met, and with that is over.
    const auto until = now + time;
    for (int at_once = 0; core.deadline() && *core.deadline() <= until;) {
      at_once = *core.deadline() > now ? 0 : at_once + 1;
      if (at_once > 10) throw std::logic_error("the core's deadline is always due");
      now = std::max(now, *core.deadline());
      core.tick(now, quiet, out);
      if (!quiet) break;
    }
    now = until;
    core.tick(now, quiet, out);
  }
  void subscribe(std::uint64_t id, const std::string& c, std::optional<millis> in = std::nullopt) {
    core.subscribe(id, c, in ? std::optional(now + *in) : std::nullopt, now, out);
  }
  void unsubscribe(const std::string& c) { core.unsubscribe(c, now, out); }

  void hub_up(bool healthy = true) {
    core.hub_connected(now, out);
    welcome w;
    w.hub = "HUB";
    w.fence = "TOKEN";
    w.db = "db";
    w.system_id = "1";
    core.hub_message(w, now, out);
    hub_says(healthy);
  }
  void hub_says(bool healthy, bool draining = false) {
    status s;
    s.healthy = healthy;
    s.draining = draining;
    core.hub_message(s, now, out);
  }
  void hub_is_full() {
    status s;
    s.reason = "connecting";
    s.full = true;
    core.hub_message(s, now, out);
  }
  void hub_acks(const std::string& c) { core.hub_message(ack{c}, now, out); }
  void hub_nacks(const std::string& c, code why = code::invalid_channel) {
    nack n;
    n.q.text = c;
    n.why = why;
    core.hub_message(n, now, out);
  }
  void hub_gap(const std::string& c) {
    wake w;
    w.q = c;
    w.gap = gap_cause::reconnect;
    core.hub_message(w, now, out);
  }
  void hub_wakes(const std::string& c, std::optional<std::string> payload = std::nullopt) {
    wake w;
    w.q = c;
    w.payload = std::move(payload);
    core.hub_message(w, now, out);
  }
  void hub_fence(std::uint64_t id, int by = own_backend) { core.hub_message(fence{id, by}, now, out); }
  void hub_gone() { core.hub_closed("gone", now, out); }
  void hub_denies() { core.hub_denied("denied", now, out); }
  void hub_refuses() { core.hub_failed("refused", false, now, out); }

  void own_live(const std::string& id = "1") { core.own_live("db", id, own_backend, now, out); }
  void own_activates(const std::string& c) { core.own_activated(c, now, out); }
  void own_wakes(const std::string& c, const std::string& payload = "") {
    core.own_notification(own_backend, c, payload, now, out);
  }
  void own_lost() { core.own_lost("lost", now, out); }

  // Served by the hub, with these channels.
  void on_hub(const std::vector<std::string>& channels) {
    start();
    hub_up();
    std::uint64_t id = 100;
    for (const auto& c : channels) {
      subscribe(++id, c);
      hub_acks(c);
    }
    words();
  }
  // Served by an own connection, the hub gone.
  void on_own(const std::vector<std::string>& channels) {
    on_hub(channels);
    pass(millis{20'000}, false);
    hub_says(true);
    hub_gone();
    hub_refuses();
    own_live();
    for (const auto& c : channels) own_activates(c);
    words();
  }

 private:
  static std::string word(client::connect_hub&) { return "connect"; }
  static std::string word(client::close_hub&) { return "close"; }
  static std::string word(client::start_own&) { return "own+"; }
  static std::string word(client::stop_own&) { return "own-"; }
  static std::string word(client::acquire_slot&) { return "slot"; }
  static std::string word(client::release_slot&) { return "-slot"; }
  static std::string word(client::want_own& x) { return "want " + x.channel; }
  static std::string word(client::unwant_own& x) { return "unwant " + x.channel; }
  static std::string word(client::say_own& x) { return "say " + x.payload; }
  static std::string word(client::forget& x) { return "forget " + x.channel; }
  static std::string word(client::send_hub& x) {
    if (auto* s = std::get_if<sub>(&x.message)) return "sub " + s->q.text;
    if (auto* u = std::get_if<unsub>(&x.message)) return "unsub " + u->q.text;
    return "hello";
  }
  static std::string word(client::answered& x) {
    const char* how[] = {"ok ", "timeout ", "nack ", "ended "};
    return how[static_cast<int>(x.how.how)] + std::to_string(x.request);
  }
  static std::string word(client::deliver& x) {
    const auto& e = x.what;
    if (e.what == client::event::kind::state)
      return std::string("#") + client::to_string(e.source) + (e.healthy ? "" : "?");
    if (e.what == client::event::kind::refused) return "refused " + e.channel;
    if (e.gap != gap_cause::none) return e.channel + "!" + std::string(pgwake::to_string(e.gap));
    return e.payload ? e.channel + "=" + *e.payload : e.channel;
  }
};

// A rig whose settings are not quite the default.
inline failover_rig with(void (*change)(client::failover_settings&)) {
  auto s = failover_rig::defaults();
  change(s);
  return failover_rig(std::move(s));
}

}  // namespace pgwake::test
