#pragma once

#include <string>
#include <vector>

#include "daemon/engine.hpp"
#include "unit/describe.hpp"

namespace pgwake::test {

// An engine with a server that answers everything right when told to, and workers that read when asked.
struct engine_rig {
  using strings = std::vector<std::string>;
  using worker_id = pgwaked::worker_id;

  static pgwaked::engine::config defaults() {
    pgwaked::engine::config c;
    c.upstream.self_check = "check";
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
        details = w->fields;
      } else if (auto* m = std::get_if<pgwaked::engine::make_stats>(&a)) {
        words.push_back("stats for " + std::to_string(m->worker));
      }
    }
    return words;
  }
  std::string details;

  void succeed(std::vector<std::optional<std::string>> row = {}) {
    sql.clear();
    query_result r;
    r.ok = true;
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
        succeed({"42", "f", "shop", "UTF8", "0"});
      } else if (sql.find("pg_control_system") != std::string::npos) {
        succeed({"7123"});
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
  void say(worker_id id, std::string_view json) { engine.bytes(id, framed(json), now); }
  void sub(worker_id id, const std::string& q) { say(id, R"({"t":"sub","q":")" + q + "\"}"); }
  void unsub(worker_id id, const std::string& q) { say(id, R"({"t":"unsub","q":")" + q + "\"}"); }
  strings read(worker_id id) {
    auto* box = engine.open_outbox(id);
    if (box == nullptr) return {"GONE"};
    auto out = describe_stream(waiting_bytes(*box));
    engine.written(id, box->bytes());
    return out;
  }
};

}  // namespace pgwake::test
