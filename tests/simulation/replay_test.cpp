// Holds the model of PostgreSQL to the truth: the same SQL on the model and on a real server, and both must
// agree on every outcome, every SQLSTATE, every cut name and every notification of every session, in order.

#include <libpq-fe.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "simulation/database.hpp"
#include "simulation/random.hpp"
#include "support/cluster.hpp"

using namespace pgwake::simulation;
using pgwake::test::cluster;
using pgwake::test::connection;

namespace {

struct outcome {
  bool ok = true;
  bool truncated = false;
  std::string sqlstate;
  bool operator==(const outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const outcome& o) {
  return out << (o.ok ? "ok" : "ERROR " + o.sqlstate) << (o.truncated ? ", name cut" : "");
}

// A session of the real server.
class real_session {
 public:
  explicit real_session(connection c) : connection_(std::move(c)) {
    PQsetNoticeReceiver(raw(), &real_session::notice, this);
  }
  PGconn* raw() const { return connection_.raw(); }

  void send(const std::string& sql) {
    outcome_ = {};
    REQUIRE(PQsendQuery(raw(), sql.c_str()) == 1);
  }
  outcome finish() {
    while (auto* result = PQgetResult(raw())) {
      if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        outcome_.ok = false;
        outcome_.sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
      }
      PQclear(result);
    }
    return outcome_;
  }
  std::vector<std::string> notifications() {
    std::vector<std::string> out;
    while (auto* n = PQnotifies(raw())) {
      out.push_back(std::string(n->relname) + " =" + std::string(n->extra).substr(0, 20));
      PQfreemem(n);
    }
    return out;
  }

 private:
  static void notice(void* self, const PGresult* result) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state != nullptr && std::string(state) == "42622")
      static_cast<real_session*>(self)->outcome_.truncated = true;
  }
  connection connection_;
  outcome outcome_;
};

std::string repeated(const char* text, int times) {
  std::string out;
  while (times-- > 0) out += text;
  return out;
}

class script {
 public:
  explicit script(std::uint64_t seed) : random_(seed) {}

  std::string query() {
    const auto dice = random_.below(20);
    if (dice == 0) return "BEGIN";
    if (dice == 1) return "COMMIT";
    if (dice == 2) return "ROLLBACK";
    std::string sql = statement();
    for (auto n = random_.pick({0UL, 0UL, 1UL, 3UL}); n > 0; --n) sql += ";" + statement();
    return sql;
  }
  // One that stops halfway until it is let go, so that others commit while it runs.
  std::string slow_query(const std::string& gate) { return statement() + ";" + gate + ";" + statement(); }

  random_source& random() { return random_; }

 private:
  std::string statement() {
    const auto dice = random_.below(20);
    if (dice < 7) return "LISTEN " + name();
    if (dice < 10) return "UNLISTEN " + name();
    if (dice < 11) return random_.chance(50) ? "UNLISTEN *" : "SELECT 1";
    if (dice < 12) return random_.pick({"SELECT 1/0", "SELECT 1/0", "LISTEN \"\""});
    return "NOTIFY " + name() + payload();
  }
  std::string name() {
    return random_.pick({std::string("\"a\""), std::string("\"a\""), std::string("\"B\""),
                         std::string("\"x\"\"y\""), std::string("\"日本\""), "\"" + repeated("n", 70) + "\"",
                         "\"" + repeated("n", 63) + "\"", "\"" + repeated("日", 22) + "\"",
                         "\"" + repeated("日", 21) + "\""});
  }
  std::string payload() {
    return random_.pick({std::string(), std::string(", ''"), std::string(", E'p'"), std::string(", E'p'"),
                         std::string(", E'it''s \\\\ here; too'"), ", E'" + repeated("x", 7999) + "'",
                         ", E'" + repeated("x", random_.chance(20) ? 8000 : 100) + "'"});
  }
  random_source random_;
};

// The same on both sides, compared after each step.
class pair_of_servers {
 public:
  explicit pair_of_servers(cluster& postgres) : keeper_(postgres.connect()) {
    for (std::size_t i = 0; i < real_.size(); ++i) {
      model_[i] = database_.open();
      real_[i] = std::make_unique<real_session>(postgres.connect());
    }
  }

  // A statement that waits until let_go().
  std::string close_gate() {
    ++gate_;
    keeper_.exec("SELECT pg_advisory_lock(" + std::to_string(gate_) + ")");
    return "SELECT pg_advisory_xact_lock(" + std::to_string(gate_) + ")";
  }
  void let_go() { keeper_.exec("SELECT pg_advisory_unlock(" + std::to_string(gate_) + ")"); }

  void both(std::size_t i, const std::string& sql) {
    real_[i]->send(sql);
    finish(i, sql);
  }
  void start(std::size_t i, const std::string& sql) {
    const auto before = keeper_.value("SELECT clock_timestamp()");
    real_[i]->send(sql);
    // It stands at the gate, or has failed before.
    const auto there =
        "SELECT query_start > '" + before +
        "' AND (wait_event_type = 'Lock' OR state LIKE 'idle%') FROM pg_stat_activity WHERE pid = " +
        std::to_string(PQbackendPID(real_[i]->raw()));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (keeper_.value(there) != "t") REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
  // The model runs it now: whatever others did meanwhile, the session was silent.
  void finish(std::size_t i, const std::string& sql) {
    const auto real = real_[i]->finish();
    const auto answer = database_.run(model_[i], sql);
    history_ += "  " + std::to_string(i) + ": " + sql.substr(0, 200) + "\n";
    CAPTURE(history_);
    REQUIRE(outcome{answer.ok, answer.truncated, answer.sqlstate} == real);
  }
  void compare_notifications(std::size_t busy = SIZE_MAX) {
    for (std::size_t i = 0; i < real_.size(); ++i) {
      if (i == busy || model_[i].open_transaction) continue;
      real_[i]->send("SELECT 1");  // what waits comes before its ReadyForQuery
      real_[i]->finish();
      std::vector<std::string> expected;
      for (const auto& n : database_.take(model_[i]))
        expected.push_back(n.channel + " =" + n.payload.substr(0, 20));
      CAPTURE(history_, i);
      REQUIRE(expected == real_[i]->notifications());
      seen_ += expected.size();
    }
  }
  std::size_t sessions() const { return real_.size(); }
  std::size_t seen() const { return seen_; }
  bool in_transaction(std::size_t i) const { return model_[i].open_transaction; }

 private:
  connection keeper_;
  int gate_ = 0;
  database database_;
  std::array<database::session, 3> model_;
  std::array<std::unique_ptr<real_session>, 3> real_;
  std::string history_;
  std::size_t seen_ = 0;
};

}  // namespace

TEST_CASE("the model of PostgreSQL is held to the truth: 200 seeds of SQL, both agree") {
  auto& postgres = cluster::shared();
  std::size_t notifications = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    script s(seed);
    pair_of_servers both(postgres);
    for (int step = 0; step < 25; ++step) {
      const auto i = s.random().below(both.sessions());
      if (!s.random().chance(15)) {
        both.both(i, s.query());
        both.compare_notifications();
        continue;
      }
      const auto slow = s.slow_query(both.close_gate());
      both.start(i, slow);
      for (auto n = s.random().between(1, 3); n > 0; --n) {
        const auto other = (i + 1 + s.random().below(both.sessions() - 1)) % both.sessions();
        both.both(other, s.query());
        both.compare_notifications(i);
      }
      both.let_go();
      both.finish(i, slow);
      both.compare_notifications();
    }
    notifications += both.seen();
  }
  CHECK(notifications > 1000);
}
