#include <boost/asio/post.hpp>

#include "daemon/app/app.hpp"
#include "daemon/app/control_room.hpp"
#include "daemon/app/engine_config.hpp"

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
                                set_log_level(level);
                              },
                              [this] {
                                // Not from inside a turn: with no workers left the hub stops at once, and the
                                // answer has to go first.
                                boost::asio::post(loop_, [this] {
                                  if (!drain_until_) begin_drain(log_fields().add("control", "drain"));
                                });
                              }};
  // Called while the engine's actions are being carried out: those that follow from this are, too.
  auto answer = carry_out_control(engine_, asker, wish, powers, steady::now());
  const auto* event = answer.ok ? "control" : "control refused";
  if (thinning_.admit(event, who.uid, steady::now()))
    log_.audit(event, log_fields()
                          .add("uid", who.uid)
                          .add("pid", who.pid)
                          .add("do", wish.what)
                          .add("arg", wish.arg)
                          .add("answer", answer.text));
  engine_.answer_control(asker, std::move(answer), steady::now());
}

void app::set_log_level(log_level level) {
  log_.set_level(level);
  engine_.tell(level == log_level::trace   ? engine::detail::trace
               : level == log_level::debug ? engine::detail::debug
                                           : engine::detail::usual);
}

// The old settings hold until the new ones are read: a file may hang on a mount, a name on the name service.
void app::reload() {
  reload_again_ = reader_.busy();
  if (reload_again_) return;
  manager_.reloading();
  reload_since_ = steady::now();
  const bool started = reader_.start([this, given = given_]() -> helper_thread::on_loop {
    auto fresh = load(given, real_surroundings());
    if (fresh)
      if (auto fault = database_fault(*fresh); !fault.empty()) fresh = usage_error{std::move(fault)};
    return [this, fresh = std::move(fresh)] { take_settings(fresh); };
  });
  if (!started) take_settings(usage_error{"no thread is to be had to read the settings on"});
}

void app::refuse_reload(const std::vector<std::string>& why) {
  ++reloads_.refused;
  for (const auto& line : why)
    log_.error("reload refused, nothing changed", log_fields().add("reason", line));
}

// The content of the file that is in force; another address or file waits for a restart.
void app::take_metrics_token(const loaded& fresh) {
  if (!metrics_ || fresh.values.metrics_listen != loaded_.values.metrics_listen ||
      fresh.values.metrics_token_file != loaded_.values.metrics_token_file ||
      fresh.metrics_token == loaded_.metrics_token)
    return;
  loaded_.metrics_token = fresh.metrics_token;
  metrics_->set_token(fresh.metrics_token);
  log_.info("metrics token changed");
}

void app::take_settings(const boost::system::result<loaded, usage_error>& fresh) {
  reload_since_.reset();
  if (stopping_) return;
  if (!drain_until_) manager_.ready();
  if (std::exchange(reload_again_, false)) return reload();
  if (!fresh) return refuse_reload(fresh.error().lines());
  ++reloads_.done;
  reloads_.waiting_for_restart = 0;
  log_fields changed;
  bool new_session = false;
  for (const auto& c : differences(loaded_.values, fresh->values)) {
    if (!c.reloadable) {
      ++reloads_.waiting_for_restart;
      log_.warning("reload: needs a restart", log_fields().add("setting", c.name).add("value", c.after));
      continue;
    }
    changed.add(c.name, c.after);
    new_session =
        new_session || c.name == "database" || c.name == "database_file" || c.name == "application_name";
  }
  take_metrics_token(*fresh);
  loaded_.values = reloaded(loaded_.values, fresh->values);
  set_log_level(loaded_.values.log_level);
  enter([&](steady_time now) {
    engine_.change(engine_config(loaded_.values, nofile_), now);
    // A reload is how an operator says that a password was mended.
    if (new_session)
      engine_.reconnect(now);
    else
      engine_.hurry(now);
    log_.info(changed.empty() ? "reloaded, nothing changed" : "reloaded", changed);
  });
}

}  // namespace pgwaked
