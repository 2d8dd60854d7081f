#include <catch2/catch.hpp>
#include <iostream>
#include <list>

#include "integration/driver_clients.hpp"

// Real drivers at the front door, each as its documents show it (tests/drivers), all of them beside each other.
using namespace pgwake::test;

namespace {

class crowd {
 public:
  crowd(rig& r, const std::vector<const driver*>& drivers) : r_(r) {
    const auto folder = r.hub().socket().substr(0, r.hub().socket().rfind('/'));
    const auto door = "host=" + folder + " port=5432 user=app dbname=" + r.database();
    for (const auto* d : drivers) clients_.emplace_back(*d, door, r.pg().conninfo(r.database()));
  }

  // Until it is true of each of them.
  template <class Predicate>
  void await(const char* what, Predicate predicate) {
    auto late = clients_.begin();
    const auto all = [&] {
      return (late = std::find_if_not(late, clients_.end(), predicate)) == clients_.end();
    };
    if (eventually(20s, all)) return;
    for (const auto& c : clients_)
      if (!predicate(c)) UNSCOPED_INFO(c.name() << ": " << what << "\n" << c.said());
    INFO(r_.hub().log());
    FAIL("not all of them: " << what);
  }

 private:
  rig& r_;
  std::list<driver_client> clients_;
};

rig_options open_door() { return {.arguments = {"--front-door", "--drain-grace", "300ms"}}; }

void restart(rig& r) {
  r.hub().stop();
  r.hub().start();
  REQUIRE(r.hub().await_health());
}

}  // namespace

TEST_CASE(
    "P1 to P19: drivers, unchanged but for their host, through restarts of the hub and of its session") {
  rig r(open_door());
  const auto drivers = chosen(all_drivers());
  crowd clients(r, drivers);
  clients.await("connects and listens", [](const auto& c) { return c.ready() == 1; });
  auto publisher = r.publisher();
  std::vector<std::string> sent;
  // Numbers, which are JSON, too: some drivers take nothing else.
  const auto publish = [&] {
    sent.push_back(std::to_string(sent.size()));
    publisher.notify("drivers", sent.back());
  };
  while (sent.size() < 1'000) publish();
  const auto has_all = [&](const auto& c) { return c.got() == sent; };
  clients.await("gets a thousand payloads in order, each once", has_all);
  REQUIRE(r.terminate());
  clients.await("listens again after the gap", [](const auto& c) { return c.ready() == 2; });
  publish();
  clients.await("gets what comes after the gap, and nothing else", has_all);
  restart(r);
  clients.await("listens again after the hub's restart", [](const auto& c) { return c.ready() == 3; });
  publish();
  clients.await("gets what comes after the restart, and nothing else", has_all);
  CHECK(r.census() == 1);
  std::cerr << "drivers tried: " << drivers.size() << "\n";
}

TEST_CASE(
    "Recipes: libraries that take jobs are woken through the hub, and their queries go to the database") {
  const auto libraries = chosen(job_libraries());
  if (libraries.empty()) return;
  rig r(open_door());
  crowd clients(r, libraries);
  // Each makes a job when it listens; the first poll without a notification would come too late.
  const auto worked = [&](std::size_t times) {
    clients.await("takes the job that it was woken for",
                  [&](const auto& c) { return c.ready() == times && c.got().size() == times; });
  };
  worked(1);
  REQUIRE(r.terminate());
  worked(2);
  restart(r);
  worked(3);
}
