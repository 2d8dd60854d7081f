#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <stdexcept>

#include "common/os/random_word.hpp"
#include "daemon/app/app.hpp"
#include "daemon/app/machine.hpp"
#include "daemon/settings/door_place.hpp"

// The socket of the front door, where drivers of PostgreSQL connect.
namespace pgwaked {

using namespace pgwake;
using steady = std::chrono::steady_clock;

void app::open_door() {
  const auto& s = loaded_.values;
  if (!s.front_door) return;
  const auto path = door_socket(s);
  door_.emplace(loop_.get_executor(), log_, "front door",
                socket_file::settings{path, s.socket_mode, s.socket_gid, "--front-door-dir"},
                [this](unique_fd fd, const peer& who) { welcome_at_door(std::move(fd), who, false); });
  door_->open(manager_.take_socket(path));
  log_.info("front door open", log_fields().add("socket", path));
  if (door_->activated()) tell_passed(path);
}

// A socket unit holds the socket of a front door that the settings do not want, or have elsewhere. Whoever
// connects there would wait for ever: so all are heard, and refused in a way that sends them on (P4).
void app::open_shut_doors() {
  const auto& s = loaded_.values;
  for (auto& other : manager_.other_sockets()) {
    const auto name = other.path.substr(other.path.rfind('/') + 1);
    if (!name.starts_with(".s.PGSQL."))
      throw std::runtime_error("the service manager passed a socket at " +
                               (other.path.empty() ? "no path" : other.path) + ", but `socket` is " +
                               s.socket + ": make ListenStream= and `socket` the same");
    shut_doors_.emplace_back(loop_.get_executor(), log_, [this](unique_fd fd, const peer& who) {
      welcome_at_door(std::move(fd), who, true);
    });
    shut_doors_.back().start(std::move(other.fd));
    auto fields = log_fields().add("socket", other.path);
    if (!s.front_door)
      log_.info("front door shut",
                fields.add("detail",
                           "front_door is false, and the socket unit holds this socket: drivers "
                           "that connect are told to connect to the server"));
    else
      log_.warning("front door shut",
                   fields.add("reason", "the front door is at " + door_socket(s))
                       .add("what_to_do",
                            "drivers that connect there are told to connect to the server: "
                            "make ListenStream= in the socket unit, front_door_dir and "
                            "front_door_port the same"));
  }
}

// libpq gives up, and tries no other host, where it cannot even send its startup packet. So whoever is to be
// refused is heard first.
void app::welcome_at_door(unique_fd fd, const peer& who, bool shut) {
  if (!shut)
    if (const auto why = engine_.refusal(who)) complain_refused(who, *why);
  if (!engine_.may_knock(who, shut)) return;
  enter([&](steady_time now) { keep(engine_.joined_at_door(who, random_word(), now, shut), std::move(fd)); });
}

void app::watch_door() {
  if (door_ && door_->look() == listening_path::state::displaced)
    door_->say("another process has locked its path", true);
}

void app::close_door() {
  if (door_) door_->close();
  for (auto& shut : shut_doors_) shut.stop(acceptor::waiting::leave);
}

// Its outbox is being written at this moment.
void app::resume_later(worker_id id) {
  boost::asio::post(loop_, [this, id] {
    if (stopping_) return;
    enter([&](steady_time now) { engine_.resume(id, now); });
  });
}

}  // namespace pgwaked
