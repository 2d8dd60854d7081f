#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/engine.hpp"
#include "unit/core/describe.hpp"

namespace pgwake::test {

// An engine with a server that answers everything right when told to, and workers that read when asked.
struct engine_rig {
  using strings = std::vector<std::string>;
  using worker_id = pgwaked::worker_id;

  static pgwaked::engine::config defaults() {
    pgwaked::engine::config c;
    c.upstream.self_check = "check";
    c.upstream.secret = [n = std::make_shared<std::uint64_t>(0)] { return ++*n; };
    c.hub_uuid = "uuid";
    c.version = "0.1.0";
    return c;
  }

  explicit engine_rig(const pgwaked::engine::config& c = defaults()) : engine(c, 1) {
    engine.start(now);
    took();
  }

  pgwaked::engine engine;
  steady_time now{};
  std::string sql;  // sent and not answered
  bool connecting = false;
  int joined = 0;
  std::string database = "shop";
  std::string system_id = "7123";
  std::string max_connections;  // empty: not told

  // The actions since the last call, in words. `connect` and `send` are remembered for answer().
  strings took() {
    strings words;
    for (auto& a : std::exchange(engine.actions(), {})) {
      if (std::get_if<pgwaked::engine::connect>(&a) != nullptr) {
        connecting = true;
        words.emplace_back("connect");
      } else if (auto* s = std::get_if<pgwaked::engine::send>(&a)) {
        sql = s->sql;
        words.push_back("send " + sql.substr(0, 40));
      } else if (auto* c = std::get_if<pgwaked::engine::close_session>(&a)) {
        sql.clear();
        words.push_back("close session " + c->reason);
      } else if (auto* w = std::get_if<pgwaked::engine::close_worker>(&a)) {
        words.push_back(w->event + " " + std::to_string(w->worker) + (w->flush ? " flush" : ""));
        details = to_string(w->fields);
      } else if (auto* m = std::get_if<pgwaked::engine::make_stats>(&a)) {
        words.emplace_back(m->eyes.privileged ? "stats of all" : "stats of " + std::to_string(m->eyes.uid));
        for (const auto id : m->askers) words.back() += " " + std::to_string(id);
      }
    }
    return words;
  }
  std::string details;

  void succeed(std::vector<std::optional<std::string>> row = {}) {
    query_result r;
    r.ok = true;
    r.completed = static_cast<std::size_t>(std::count(sql.begin(), sql.end(), ';')) + 1;
    sql.clear();
    r.row = std::move(row);
    engine.result(r, now);
    took();
  }
  void fail(const std::string& sqlstate) {
    sql.clear();
    query_result r;
    r.sqlstate = sqlstate;
    r.message = "message";
    engine.result(r, now);
    took();
  }
  // Answers all that the engine asks of the server, until it asks nothing.
  void serve() {
    took();
    while (true) {
      if (connecting) {
        connecting = false;
        session_info info;
        info.backend_pid = 42;
        engine.connected(info, now);
        took();
      } else if (sql.find("pg_is_in_recovery") != std::string::npos) {
        std::vector<std::optional<std::string>> row = {"42", "f", database, "UTF8", "0"};
        if (!max_connections.empty()) row.insert(row.end(), {max_connections, "3", std::nullopt});
        succeed(std::move(row));
      } else if (sql.find("pg_control_system") != std::string::npos) {
        succeed({system_id});
      } else if (sql.starts_with("NOTIFY")) {
        const auto from = sql.find("E'") + 2;
        const auto payload = sql.substr(from, sql.size() - from - 1);
        succeed();
        engine.notification("pgwake.fence", payload, 42, now);
        took();
      } else if (!sql.empty()) {
        succeed({"1"});
      } else {
        return;
      }
    }
  }
  void lose() {
    engine.session_lost("gone", now);
    took();
  }
  void recover() {
    if (!connecting) now = std::max(now, engine.deadline().value_or(now));
    engine.tick(now, true);
    serve();
  }

  worker_id join(bool v1 = true) {
    ++joined;
    const auto id = engine.joined({100 + joined, 33, 33}, "T" + std::to_string(joined), now);
    if (v1) {
      say(id, R"({"t":"hello","v":1})");
      read(id);
    }
    return id;
  }
  // All that the shell would do before it waits.
  void bytes(worker_id id, std::string_view data) {
    engine.bytes(id, data, now);
    turns();
  }
  void turns() {
    while (engine.busy()) engine.turn(now);
    engine.readable().clear();
  }
  void say(worker_id id, std::string_view json) { bytes(id, framed(json)); }
  void sub(worker_id id, const std::string& q) { say(id, R"({"t":"sub","q":")" + q + "\"}"); }
  void unsub(worker_id id, const std::string& q) { say(id, R"({"t":"unsub","q":")" + q + "\"}"); }
  strings read(worker_id id) {
    auto* box = engine.open_outbox(id);
    if (box == nullptr) return {"GONE"};
    auto out = describe_stream(waiting_bytes(*box));
    engine.written(id, box->bytes());
    turns();
    return out;
  }
};

}  // namespace pgwake::test
