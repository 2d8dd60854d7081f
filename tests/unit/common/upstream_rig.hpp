#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/upstream.hpp"

namespace pgwake::test {

// An upstream whose server is the test: what it asked comes as words, answers are given one by one.
struct upstream_rig {
  using strings = std::vector<std::string>;

  explicit upstream_rig(upstream::settings s = defaults()) : up(s, 1) {}

  static upstream::settings defaults() {
    upstream::settings s;
    s.self_check = "check";
    s.secret = [n = std::make_shared<std::uint64_t>(0)] { return ++*n; };
    return s;
  }

  upstream up;
  steady_time now{};
  upstream::actions out;
  std::string sql;  // of the last `send`

  // The actions since the last call, in words; SQL shortened to its kind.
  strings took() {
    strings words;
    for (auto& a : std::exchange(out, {})) {
      words.push_back(std::visit([this](auto& x) { return say(x); }, a));
      if (words.back().empty()) words.pop_back();
    }
    return words;
  }

  std::string say(upstream::connect&) { return "connect"; }
  std::string say(upstream::send& x) {
    sql = x.sql;
    if (sql.find("pg_is_in_recovery") != std::string::npos) return "send identity";
    if (sql.find("pg_control_system") != std::string::npos) return "send system id";
    if (sql.find("set_config") != std::string::npos) return "send settings";
    if (sql.find("pg_listening_channels") != std::string::npos) return "send probe";
    return "send " + sql;
  }
  std::string say(upstream::close& x) { return "close " + x.reason; }
  std::string say(upstream::notify_outside& x) {
    sql = x.sql;
    return "outside";
  }
  std::string say(upstream::activated& x) { return "activated " + x.channel; }
  std::string say(upstream::refused& x) { return "refused " + x.channel + " " + x.sqlstate; }
  std::string say(upstream::lost& x) { return "lost " + x.reason; }
  std::string say(upstream::health& x) { return x.healthy ? "healthy" : "unhealthy " + x.reason; }
  std::string say(upstream::identified& x) { return "identified " + x.database + " " + x.system_id; }
  std::string say(upstream::said& x) { return "said " + x.payload + (x.ok ? "" : " failed"); }
  std::string say(upstream::note& x) {
    notes.push_back(x.event + " " + to_string(x.fields));
    return "";
  }
  strings notes;

  strings ok(std::vector<std::optional<std::string>> row = {}) {
    query_result r;
    r.ok = true;
    r.completed = statements(sql);
    r.row = std::move(row);
    up.result(r, now, out);
    return took();
  }
  static std::size_t statements(const std::string& of) {
    return static_cast<std::size_t>(std::count(of.begin(), of.end(), ';')) + 1;
  }
  strings error(const std::string& sqlstate, const std::string& message = "message") {
    query_result r;
    r.sqlstate = sqlstate;
    r.message = message;
    up.result(r, now, out);
    return took();
  }
  strings tick(bool quiet = true) {
    up.tick(now, quiet, out);
    return took();
  }
  // To the next deadline.
  strings sleep() {
    now = std::max(now, up.deadline().value());
    return tick();
  }
  strings identity(const std::string& pid = "42", const std::string& recovery = "f",
                   const std::string& encoding = "UTF8") {
    return ok({pid, recovery, "shop", encoding, "0.25"});
  }
  strings connected(int pid = 42) {
    session_info info;
    info.backend_pid = pid;
    info.server = "db:5432";
    up.connected(info, now, out);
    return took();
  }
  strings refused(bool login = false) {
    up.connect_failed({"no route", login}, now, out);
    return took();
  }
  strings lose() {
    up.session_lost("the server went away", now, out);
    return took();
  }
  std::string check_payload() const {
    const auto from = sql.find("E'") + 2;
    return sql.substr(from, sql.rfind('\'') - from);
  }
  bool notify(const std::string& payload) { return up.own_check(payload, now, out); }

  // All the way to live, the next LISTEN (if any) sent.
  strings to_live() {
    connected();
    identity();
    ok({"7123"});
    ok({"9"});
    ok();  // LISTEN of the fence channel
    const auto payload = check_payload();
    ok();
    notify(payload);
    return took();
  }
};

}  // namespace pgwake::test
