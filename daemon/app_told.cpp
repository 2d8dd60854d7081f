#include <boost/asio/post.hpp>

#include "common/log_field.hpp"
#include "daemon/app.hpp"
#include "daemon/control_room.hpp"
#include "daemon/engine_config.hpp"

// What the running hub is told by its operator: control requests, and changed settings.
namespace pgwaked {

using namespace pgwake;
using steady = std::chrono::steady_clock;

void app::control(worker_id asker, const control_request& wish) {
  const auto it = engine_.members().find(asker);
  if (it == engine_.members().end()) return;
  const auto who = it->second.who;
  const control_powers powers{loaded_.values,
                              [this](log_level level) {
                                loaded_.values.log_level = level;
                                log_.set_level(level);
                              },
                              [this] {
                                // Not from inside a turn: with no workers left the hub stops at once, and the
                                // answer has to go first.
                                boost::asio::post(loop_, [this] {
                                  if (!drain_until_) begin_drain("control=drain");
                                });
                              }};
  auto answer = carry_out_control(engine_, asker, wish, powers, steady::now());
  log_.info(answer.ok ? "control" : "control refused",
            "uid=" + std::to_string(who.uid) + " pid=" + std::to_string(who.pid) + " do=" +
                log_field(wish.what) + " arg=" + log_field(wish.arg) + " answer=" + log_field(answer.text));
  engine_.answer_control(asker, std::move(answer), steady::now());
}

void app::reload() {
  const auto fresh = load(given_, real_surroundings());
  if (!fresh) {
    log_.error("reload refused, nothing changed", fresh.error().message);
    return;
  }
  if (const auto fault = database_fault(*fresh); !fault.empty()) {
    log_.error("reload refused, nothing changed", fault);
    return;
  }
  std::string changed;
  bool new_session = false;
  for (const auto& c : differences(loaded_.values, fresh->values)) {
    if (!c.reloadable) {
      log_.warning("reload: needs a restart", std::string(c.name) + "=" + c.after);
      continue;
    }
    changed += " " + std::string(c.name) + "=" + c.after;
    new_session =
        new_session || c.name == "database" || c.name == "database_file" || c.name == "application_name";
  }
  loaded_.values = reloaded(loaded_.values, fresh->values);
  log_.set_level(loaded_.values.log_level);
  engine_.change(engine_config(loaded_.values, nofile_), steady::now());
  if (new_session) engine_.reconnect(steady::now());
  log_.info("reloaded", changed.empty() ? "nothing changed" : "changed:" + changed);
  settle();
}

}  // namespace pgwaked
