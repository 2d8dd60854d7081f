// The daemon and the client library without their I/O, driven by hand: what routing and encoding cost in
// instructions, and what a wake costs in the client. Run under callgrind by the scenario `instructions`,
// which counts what happens inside `measured_part` alone.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/src/core/event_queue.hpp"
#include "client/src/core/machine.hpp"
#include "common/frame.hpp"
#include "common/message_codec.hpp"
#include "daemon/core/engine.hpp"

using namespace pgwaked;

namespace {

constexpr std::size_t workers = 64;
constexpr std::size_t notifications = 10'000;
constexpr std::size_t per_turn = 64;  // notifications routed before the workers are flushed
constexpr pgwake::steady_time now{std::chrono::hours(1)};

// The payload out of NOTIFY "c", E'payload'.
std::string payload_of(const std::string& sql) {
  const auto from = sql.find('\'') + 1;
  return sql.substr(from, sql.rfind('\'') - from);
}

// As applications write it: many quotes, which JSON in JSON escapes.
std::string json_text(std::size_t size) {
  std::string out = "[";
  while (out.size() < size) out += R"({"table":"orders","id":12345,"op":"update"},)";
  return out.substr(0, size);
}

class rig {
 public:
  rig() : engine_(configuration(), 1) {
    engine_.start(now);
    answer();
    for (std::size_t i = 0; i < workers; ++i) {
      ids_.push_back(engine_.joined({1000, 33, 33}, "token" + std::to_string(i), now));
      say(i, pgwake::hello{pgwake::protocol_version, "bench", std::nullopt});
      subscribe(i, "bench");
      if (i == 0) subscribe(i, "solo");
      for (std::size_t k = 0; k < 8; ++k) subscribe(i, "spread" + std::to_string((i + k) % workers));
    }
  }

  void subscribe(std::size_t worker, const std::string& channel) {
    say(worker, pgwake::sub{pgwake::wire_name{channel, ""}});
    answer();
    flush();
  }

  void notify(const std::string& payload, std::size_t count, std::string_view channel = "bench") {
    for (std::size_t i = 0; i < count; ++i) {
      engine_.notification(channel, payload, 4242, now);
      if (i % per_turn == per_turn - 1) flush();
    }
    flush();
  }

  // One after the other over 64 channels, each held by eight workers.
  void spread(const std::string& payload, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      engine_.notification("spread" + std::to_string(i % workers), payload, 4242, now);
      if (i % per_turn == per_turn - 1) flush();
    }
    flush();
  }

  std::size_t written() const { return written_; }

 private:
  static engine::config configuration() {
    engine::config c;
    c.upstream.self_check = "check";
    c.hub_uuid = "00000000-0000-4000-8000-000000000000";
    c.version = "bench";
    return c;
  }

  void say(std::size_t worker, const pgwake::from_worker& message) {
    std::string bytes;
    pgwake::encode(bytes, message);
    engine_.bytes(ids_[worker], bytes, now);
    engine_.turn(now);
  }

  // Plays PostgreSQL: every query succeeds.
  void answer() {
    while (!engine_.actions().empty()) {
      const auto actions = std::exchange(engine_.actions(), {});
      for (const auto& a : actions) {
        if (std::holds_alternative<engine::connect>(a))
          engine_.connected({42, 150000, "bench", "bench"}, now);
        const auto* send = std::get_if<engine::send>(&a);
        if (send == nullptr) continue;
        pgwake::query_result result;
        result.ok = true;
        result.completed = static_cast<std::size_t>(std::count(send->sql.begin(), send->sql.end(), ';')) + 1;
        result.row = {"42", "f", "bench", "UTF8", "0"};
        engine_.result(result, now);
        if (send->sql.rfind("NOTIFY", 0) == 0)
          engine_.notification("pgwake.fence", payload_of(send->sql), 42, now);
      }
    }
  }

  // Takes what each worker has, as its socket would.
  void flush() {
    for (const auto id : engine_.touched()) {
      auto* box = engine_.open_outbox(id);
      if (box == nullptr) continue;
      while (!box->empty()) {
        pieces_.clear();
        box->gather(pieces_, 4096, 256 * 1024);
        std::size_t bytes = 0;
        for (const auto piece : pieces_) bytes += piece.size();
        engine_.written(id, bytes);
        written_ += bytes;
      }
    }
    engine_.touched().clear();
  }

  engine engine_;
  std::vector<worker_id> ids_;
  std::vector<std::string_view> pieces_;
  std::size_t written_ = 0;
};

// A client that the hub serves, from bytes to the application.
class client_rig {
 public:
  client_rig() : machine_(settings(), {}, 1) {
    machine_.start(now, actions_);
    machine_.hub_connected(now, actions_);
    machine_.hub_message(pgwake::welcome{}, now, actions_);
    machine_.hub_message(pgwake::status{true, false, 0, ""}, now, actions_);
    machine_.subscribe(1, "bench", std::nullopt, now, actions_);
    machine_.hub_message(pgwake::ack{"bench"}, now, actions_);
    actions_.clear();
    const std::string payload(100, 'x');
    pgwake::wake_view w{"bench", payload, 4242};
    for (std::size_t i = 0; i < per_turn; ++i) pgwake::encode(bytes_, w);
  }

  // How many the application got.
  std::size_t receive(std::size_t count) {
    std::size_t got = 0;
    for (std::size_t i = 0; i < count; i += per_turn) {
      reader_.append(bytes_);
      for (std::string_view body; reader_.next(body) == pgwake::frame_reader::outcome::frame;) {
        pgwake::wake w;
        pgwake::client::event e;
        if (!pgwake::decode_plain_wake(body, w) || !machine_.hub_wake(std::move(w), now, actions_, e))
          std::abort();
        turn_.push_back(std::move(e));
      }
      for (auto& e : turn_) queue_.push(std::move(e));
      turn_.clear();
      while (queue_.pop(event_)) ++got;
    }
    return got;
  }

 private:
  static pgwake::client::failover_settings settings() {
    pgwake::client::failover_settings s;
    s.policy = pgwake::client::policy::none;
    return s;
  }

  pgwake::client::machine machine_;
  pgwake::client::machine_actions actions_;
  pgwake::frame_reader reader_{pgwake::max_frame_from_hub};
  std::string bytes_;
  std::vector<pgwake::client::event> turn_;
  pgwake::client::event_queue queue_{64U << 20U};
  pgwake::client::event event_;
};

struct rigs {
  rig hub;
  client_rig client;
};

}  // namespace

// Callgrind's --toggle-collect finds it by this name.
extern "C" __attribute__((noinline, visibility("default"))) void measured_part(rigs* all, const char* what) {
  const std::string part = what;
  auto* r = &all->hub;
  if (part == "client") std::printf("%zu received\n", all->client.receive(notifications));
  if (part == "durable") r->notify("", notifications);
  if (part == "solo") r->notify(std::string(100, 'x'), notifications, "solo");
  if (part == "100") r->notify(std::string(100, 'x'), notifications);
  if (part == "1024") r->notify(std::string(1024, 'x'), notifications);
  if (part == "json") r->notify(json_text(1024), notifications);
  if (part == "spread") r->spread(std::string(100, 'x'), notifications);
  if (part == "ack")
    for (std::size_t i = 0; i < notifications; ++i) r->subscribe(i % workers, "bench");
  if (part == "subscribe")
    for (std::size_t i = 0; i < notifications; ++i) r->subscribe(i % workers, "bench" + std::to_string(i));
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s durable|solo|100|1024|json|spread|ack|subscribe|client\n", argv[0]);
    return 2;
  }
  rigs r;
  measured_part(&r, argv[1]);
  std::printf("%zu bytes written\n", r.hub.written());
}
