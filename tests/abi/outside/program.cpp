// The same from C++.
#include <iostream>
#include <pgwake/pgwake.hpp>

using namespace std::chrono_literals;

int main() {
  try {
    pgwake::options options;
    options.set("policy", "poll").set("poll_interval", "20ms").set("socket", "/nonexistent/pgwake.sock");
    pgwake::listener listener(options);
    if (!listener.subscribe("orders", 5s)) return 1;
    const auto bad = listener.subscribe({"a", "", "b"}, 5s);
    if (bad.size() != 1 || bad[0].second != PGWAKE_NACK) return 2;
    auto event = listener.next(5s);
    while (event && !event->is_wake()) event = listener.next(5s);
    if (!event || !event->read_again()) return 3;
    int reminders = 0;
    while (reminders < 3)
      listener.dispatch([&](pgwake::event e) { reminders += e.read_again() ? 1 : 0; }, 5s);
    try {
      listener.subscribe(std::string(64, 'x'));
      return 4;
    } catch (const pgwake::error& e) {
      if (!e.nack()) return 5;
    }
    if (listener.state().channels != 3) return 6;
    auto moved = std::move(listener);
    moved.unsubscribe("orders");
    return moved.fd() >= 0 ? 0 : 7;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
