// The smallest worker in C++: subscribe, read, then wait for wakes.
#include <chrono>
#include <exception>
#include <iostream>
#include <pgwake/pgwake.hpp>

using namespace std::chrono_literals;

static void read_orders() { std::cout << "reading the orders table" << std::endl; }

int main() {
  try {
    pgwake::listener listener;  // the socket and the database: PGWAKE_SOCKET, PGWAKE_DATABASE
    if (!listener.subscribe("orders", 10s)) {
      std::cerr << "nobody serves: " << listener.state().reason << '\n';
      return 1;
    }
    read_orders();  // after subscribing: what changes from now on brings a wake

    while (const auto event = listener.next()) {
      if (event->read_again()) read_orders();  // something changed, or (event->is_gap()) may have been missed
      if (const auto payload = event->payload())
        std::cout << event->channel() << ": " << *payload << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
