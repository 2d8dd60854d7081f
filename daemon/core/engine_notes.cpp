#include <type_traits>

#include "daemon/core/engine.hpp"

// What is noted at the log levels debug and trace: kinds, names and sizes, never a payload.
namespace pgwaked {

using namespace pgwake;

namespace {

// The statement's first word, without names and payloads.
std::string_view verb_of(std::string_view sql) { return sql.substr(0, sql.find_first_of(" (;")); }

}  // namespace

void engine::note_frame(worker_id id, const worker_protocol::event& e) {
  log_fields fields;
  fields.add("worker", id);
  std::visit(
      [&fields](const auto& x) {
        using kind = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<kind, worker_protocol::greeted>) {
          fields.add("kind", "hello").add("name", x.hello.name.value_or("")).add("v", x.hello.v);
        } else if constexpr (std::is_same_v<kind, worker_protocol::spoke>) {
          fields.add("kind", "first of v0");
        } else if constexpr (std::is_same_v<kind, worker_protocol::subscribe>) {
          fields.add("kind", "sub").add("channel", x.channel);
        } else if constexpr (std::is_same_v<kind, worker_protocol::unsubscribe>) {
          fields.add("kind", "unsub").add("channel", x.channel);
        } else if constexpr (std::is_same_v<kind, worker_protocol::reject>) {
          fields.add("kind", "sub").add("refused", to_string(x.nack.why)).add("reason", x.nack.reason);
        } else if constexpr (std::is_same_v<kind, worker_protocol::pinged>) {
          fields.add("kind", "ping");
        } else if constexpr (std::is_same_v<kind, worker_protocol::asked_stats>) {
          fields.add("kind", "stats");
        } else if constexpr (std::is_same_v<kind, worker_protocol::asked_control>) {
          fields.add("kind", "control").add("do", x.control.what);
        } else if constexpr (std::is_same_v<kind, worker_protocol::ignored>) {
          fields.add("kind", "unknown").add("t", x.t);
        } else if constexpr (std::is_same_v<kind, worker_protocol::broken>) {
          fields.add("kind", "broken").add("reason", x.reason);
        }
      },
      e);
  actions_.push_back(note{note::level::trace, "frame", std::move(fields)});
}

void engine::note_step(const upstream::action& a) {
  const auto say = [this](note::level how, const char* event, log_fields fields = {}) {
    actions_.push_back(note{how, event, std::move(fields)});
  };
  std::visit(
      [&](const auto& x) {
        using kind = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<kind, upstream::connect>) {
          say(note::level::debug, "upstream connects");
        } else if constexpr (std::is_same_v<kind, upstream::send>) {
          say(note::level::debug, "upstream sends",
              log_fields().add("statement", verb_of(x.sql)).add("bytes", x.sql.size()));
        } else if constexpr (std::is_same_v<kind, upstream::close>) {
          say(note::level::debug, "upstream closes", log_fields().add("reason", x.reason));
        } else if constexpr (std::is_same_v<kind, upstream::activated>) {
          say(note::level::debug, "channel active", log_fields().add("channel", x.channel));
        } else if constexpr (std::is_same_v<kind, upstream::refused>) {
          say(note::level::debug, "channel refused",
              log_fields().add("channel", x.channel).add("sqlstate", x.sqlstate).add("reason", x.reason));
        } else if constexpr (std::is_same_v<kind, upstream::lost>) {
          say(note::level::debug, "session lost", log_fields().add("reason", x.reason));
        } else if constexpr (std::is_same_v<kind, upstream::health>) {
          say(note::level::debug, "health",
              log_fields().add("healthy", x.healthy).add("reason", x.reason).add("detail", x.detail));
        } else if constexpr (std::is_same_v<kind, upstream::identified>) {
          say(note::level::debug, "database identified",
              log_fields().add("database", x.database).add("system_id", x.system_id));
        }
      },
      a);
}

}  // namespace pgwaked
