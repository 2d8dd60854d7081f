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
  door_file_.emplace(socket_file::settings{path, s.socket_mode, s.socket_gid, "--front-door-dir"});
  auto passed = manager_.take_socket(path);
  door_activated_ = static_cast<bool>(passed);
  door_file_->lock();
  if (door_activated_) door_file_->adopt();
  door_acceptor_.emplace(loop_.get_executor(), log_, [this](unique_fd fd, const peer& who) {
    welcome_at_door(std::move(fd), who, false);
  });
  door_acceptor_->start(door_activated_ ? std::move(passed) : door_file_->bind());
  log_.info("front door open", log_fields().add("socket", path));
  if (door_activated_) tell_passed(path);
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
  if (!door_file_) return;
  const auto held = door_file_->keep_lock();
  if (held == socket_file::hold::unlockable && !door_activated_) door_file_->mend_folder();
  std::string trouble;
  const auto state = door_file_->look();
  if (held == socket_file::hold::taken) {
    trouble = "another process has locked its path";
  } else if (state != socket_file::state::ours && door_activated_) {
    trouble = state == socket_file::state::gone ? "the socket file is gone"
                                                : "the path leads to something else than the hub's socket";
  } else if (state != socket_file::state::ours) {
    try {
      auto fresh = door_file_->bind();
      door_acceptor_->stop();
      door_acceptor_->start(std::move(fresh));
      log_.warning("front door bound again", log_fields().add("socket", door_file_->path()));
    } catch (const std::exception& e) {
      trouble = e.what();
    }
  }
  if (trouble == door_trouble_) return;
  door_trouble_ = std::move(trouble);
  if (!door_trouble_.empty())
    log_.error("front door lost",
               log_fields()
                   .add("socket", door_file_->path())
                   .add("reason", door_trouble_)
                   .add("what_to_do", how_to_mend(door_activated_, state == socket_file::state::foreign)));
}

void app::close_door() {
  if (door_acceptor_)
    door_acceptor_->stop(door_activated_ ? acceptor::waiting::leave : acceptor::waiting::take);
  for (auto& shut : shut_doors_) shut.stop(acceptor::waiting::leave);
  if (door_file_) door_file_->remove();
}

// Its outbox is being written at this moment.
void app::resume_later(worker_id id) {
  boost::asio::post(loop_, [this, id] {
    if (stopping_) return;
    enter([&](steady_time now) { engine_.resume(id, now); });
  });
}

}  // namespace pgwaked
