// docs/pgbus.md, step by step, with workers that do what those of pgbus 0.14 do.
#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <set>

#include "integration/rig.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

// streams_listen_health_check_ms and 2 s.
constexpr auto ack_deadline = 2'250ms;

enum class listens { by_hub, itself, not_at_all };

/// A worker of pgbus in mode `master`: one sub for each browser, one after another, each given up at the
/// deadline; it knows wake and ack, and forgets whatever else comes. At the first failure it listens itself,
/// once and for all: where that fails too, it is deaf.
class pgbus_worker {
 public:
  pgbus_worker(const std::string& socket, std::string database) : database_(std::move(database)) {
    try {
      hub_.emplace(socket);
    } catch (const std::runtime_error&) {
      fall_back();
    }
  }

  void browser(const std::string& queue) {
    const bool is_new = queues_.insert(queue).second;
    if (now() == listens::itself && is_new) own_->exec("LISTEN \"" + channel_of(queue) + "\"");
    if (now() != listens::by_hub) return;
    const auto acks = acks_[queue];
    const auto deadline = clock::now() + at_load(ack_deadline);
    try {
      hub_->sub(queue);
    } catch (const std::runtime_error&) {
      return fall_back();
    }
    while (now() == listens::by_hub && acks_[queue] == acks) {
      take(10ms);
      if (acks_[queue] == acks && clock::now() >= deadline) fall_back();
    }
  }

  /// Takes what comes until `queue` has brought `payload` (empty: a plain wake).
  bool hears(const std::string& queue, const std::string& payload = {}, milliseconds patience = 10s) {
    return eventually(patience, [&] {
      take(5ms);
      return heard_.count({queue, payload}) != 0;
    });
  }
  bool becomes(listens wanted, milliseconds patience = 10s) {
    return eventually(patience, [&] {
      take(5ms);
      return now() == wanted;
    });
  }
  int times(const std::string& queue, const std::string& payload) { return heard_[{queue, payload}]; }
  void forget() { heard_.clear(); }

  listens now() const {
    if (hub_) return listens::by_hub;
    return own_ ? listens::itself : listens::not_at_all;
  }

  static std::string channel_of(const std::string& queue) { return "pgmq.q_" + queue + ".INSERT"; }

 private:
  void take(milliseconds patience) {
    if (own_) {
      while (const auto n = own_->next_notification(patience))
        for (const auto& queue : queues_)
          if (n->channel == channel_of(queue)) ++heard_[{queue, n->payload}];
      return;
    }
    if (!hub_) return;
    if (const auto got = hub_->next(patience)) {
      if (got->t() == "ack") ++acks_[got->q()];
      if (got->t() == "wake") ++heard_[{got->q(), got->p().value_or("")}];
    } else if (hub_->at_end()) {
      fall_back();
    }
  }

  void fall_back() {
    hub_.reset();
    try {
      own_.emplace(database_);
      for (const auto& queue : queues_) own_->exec("LISTEN \"" + channel_of(queue) + "\"");
    } catch (const sql_error&) {
      own_.reset();
    }
  }

  std::string database_;
  std::optional<raw_worker> hub_{};
  std::optional<connection> own_{};
  std::set<std::string> queues_{};
  std::map<std::string, int> acks_{};
  std::map<std::pair<std::string, std::string>, int> heard_{};
};

/// A Puma in cluster mode, with some browsers on each worker.
class puma {
 public:
  puma(const rig& r, std::string socket) : rig_(r), socket_(std::move(socket)) {
    for (int i = 0; i < 3; ++i) workers_.push_back(boot());
  }

  pgbus_worker& worker(std::size_t i) { return *workers_[i]; }
  bool all(listens wanted) {
    for (const auto& w : workers_)
      if (!w->becomes(wanted)) return false;
    return true;
  }
  /// Each worker hears a message on each queue, once.
  bool hears_all() {
    const auto text = "message " + std::to_string(++messages_);
    for (const auto& queue : queues_) rig_.notify(pgbus_worker::channel_of(queue), text);
    for (const auto& w : workers_)
      for (const auto& queue : queues_)
        if (!w->hears(queue, text) || w->times(queue, text) != 1) return false;
    return true;
  }
  /// One worker after another makes room for a new one.
  bool phased_restart() {
    for (auto& w : workers_) {
      w = boot();
      if (!hears_all()) return false;
    }
    return true;
  }
  const std::vector<std::string>& queues() const { return queues_; }

 private:
  std::unique_ptr<pgbus_worker> boot() {
    auto fresh = std::make_unique<pgbus_worker>(socket_, cluster::shared().conninfo(rig_.database()));
    for (int browser = 0; browser < 8; ++browser)
      fresh->browser(queues_[static_cast<std::size_t>(browser) % queues_.size()]);
    return fresh;
  }

  const rig& rig_;
  std::string socket_;
  std::vector<std::string> queues_ = {"chat", "orders", "presence"};
  std::vector<std::unique_ptr<pgbus_worker>> workers_{};
  int messages_ = 0;
};

int v0_workers(rig& r) {
  const auto status = run_ok(pgwaked_command({"status", "--json", "--socket", r.hub().socket()}));
  return static_cast<int>(count_of(status, "\"v0\""));
}

int own_listeners(const rig& r) {
  return std::stoi(
      cluster::shared().value("SELECT count(*) FROM pg_stat_activity WHERE datname = '" + r.database() +
                              "' AND query LIKE 'LISTEN %' AND application_name = 'pgwake-test'"));
}

}  // namespace

TEST_CASE("pgbus: boot, phased restart, an outage and a restart of the hub, as docs/pgbus.md says") {
  rig r({.through_proxy = true});
  puma p(r, r.hub().socket());
  REQUIRE(p.all(listens::by_hub));
  CHECK(v0_workers(r) == 3);
  CHECK(p.hears_all());
  CHECK(p.phased_restart());
  CHECK(p.all(listens::by_hub));
  CHECK(v0_workers(r) == 3);
  CHECK(own_listeners(r) == 0);

  INFO("PostgreSQL is away, and browsers come");
  for (std::size_t i = 0; i < 3; ++i) p.worker(i).forget();
  r.proxy().refuse();
  r.proxy().reset_all();
  REQUIRE(r.hub().await_health(false));
  p.worker(0).browser("chat");
  p.worker(1).browser("new");
  CHECK(p.all(listens::by_hub));
  r.proxy().refuse(false);
  for (std::size_t i = 0; i < 3; ++i)
    for (const auto& queue : p.queues()) CHECK(p.worker(i).hears(queue, "", 20s));
  CHECK(p.worker(1).hears("new"));
  CHECK(p.hears_all());

  INFO("the hub restarts: they fall back for good, and a phased restart takes them back");
  REQUIRE(r.hub().stop() == 0);
  CHECK(p.all(listens::itself));
  CHECK(p.hears_all());
  r.hub().start();
  CHECK(p.all(listens::itself));
  CHECK(v0_workers(r) == 0);
  CHECK(p.phased_restart());
  CHECK(p.all(listens::by_hub));
  CHECK(v0_workers(r) == 3);
  REQUIRE_EVENTUALLY(own_listeners(r) == 0, 10s);

  INFO("the hub is killed");
  r.hub().kill();
  CHECK(p.all(listens::itself));
  CHECK(p.hears_all());
}

TEST_CASE("pgbus: no permission at the socket, or no hub, makes a worker listen itself, and nobody wait") {
  rig r;
  pgbus_worker lost(r.hub().socket() + ".gone", cluster::shared().conninfo(r.database()));
  CHECK(lost.now() == listens::itself);
  lost.browser("c");
  r.notify(pgbus_worker::channel_of("c"), "x");
  CHECK(lost.hears("c", "x"));
}

TEST_CASE("S3, pgbus: a hub that may not log in any more lets its workers go, and they listen themselves") {
  if (!in_full()) SKIP_CASE("takes 12 s: scripts/test --all runs it on one version of PostgreSQL");
  auto& pg = cluster::shared();
  const auto role = "hub" + std::to_string(random_port());
  pg.exec("CREATE ROLE " + role + " LOGIN");
  rig r({.more_conninfo = " user=" + role});
  puma p(r, r.hub().socket());
  REQUIRE(p.all(listens::by_hub));
  pg.exec("ALTER ROLE " + role + " NOLOGIN");
  REQUIRE(r.terminate());
  for (std::size_t i = 0; i < 3; ++i) CHECK(p.worker(i).becomes(listens::itself, 30s));
  CHECK(p.hears_all());
  CHECK(p.phased_restart());
  CHECK(p.all(listens::itself));
  pg.exec("ALTER ROLE " + role + " LOGIN");
  REQUIRE(r.hub().await_health());
  CHECK(p.phased_restart());
  CHECK(p.all(listens::by_hub));
}
