#include <pgwake/pgwake.h>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

const std::string channel = "failover";

void need(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + pgwake_last_error());
}

// Events until one satisfies `wanted`.
template <typename Wanted>
void await_event(pgwake_handle* handle, Wanted&& wanted) {
  while (true) {
    const pgwake_event* event = nullptr;
    need(pgwake_next(handle, &event, 30'000), "waiting for an event");
    if (event != nullptr && wanted(*event)) return;
  }
}

// Milliseconds from kill -9 of the hub to the first event that the worker's own connection brings. The worker
// is subscribed, and fresh, so that its first attempt is immediate.
double fall(context& c, PGconn* publisher) {
  const auto hub = c.servers.make_hub();
  auto* options = pgwake_options_new();
  pgwake_options_ignore_environment(options);
  need(pgwake_options_set(options, "socket", hub->socket().c_str()), "socket");
  need(pgwake_options_set(options, "database", c.servers.hub_database().c_str()), "database");
  pgwake_handle* handle = nullptr;
  need(pgwake_open(&handle, options), "open");
  pgwake_options_free(options);
  need(pgwake_subscribe(handle, channel.c_str(), 10'000), "subscribe");
  execute(publisher, "NOTIFY " + channel + ", 'through the hub'");
  await_event(handle, [](const pgwake_event& e) {
    return e.kind == PGWAKE_EVENT_WAKE && e.source == PGWAKE_SOURCE_HUB && e.payload != nullptr;
  });
  const auto begin = steady::now();
  ::kill(hub->child().pid(), SIGKILL);
  await_event(handle, [](const pgwake_event& e) {
    return e.kind == PGWAKE_EVENT_WAKE && e.source == PGWAKE_SOURCE_OWN;
  });
  const auto took = since(begin) * 1e3;
  pgwake_close(handle);
  return took;
}

double plain_connect(const context& c) {
  const auto begin = steady::now();
  PGconn* session = connect_postgres(c.servers.hub_database());
  execute(session, "LISTEN " + channel);
  const auto took = since(begin) * 1e3;
  PQfinish(session);
  return took;
}

}  // namespace

void run_failover(context& c) {
  PGconn* publisher = connect_postgres(c.servers.hub_database());
  const std::size_t samples = c.quick ? 10 : 50;
  series falls{"pgwake", {}};
  series connects{"connect and LISTEN", {}};
  std::vector<double> more;
  for (std::size_t i = 0; i < samples; ++i) {
    const measuring now(c.lock);
    falls.values.push_back(fall(c, publisher));
    connects.values.push_back(plain_connect(c));
    more.push_back(falls.values.back() - connects.values.back());
  }
  cell beside{"failover", "hub killed to the first wake over the own connection", "wall time", "ms", falls,
              connects};
  c.out.add(beside);
  cell difference{
      "failover", "the same, beyond the plain connect", "difference", "ms", {"pgwake", more}, std::nullopt,
      at_most(10)};
  c.out.add(difference);
  PQfinish(publisher);
}

}  // namespace pgwake::bench
