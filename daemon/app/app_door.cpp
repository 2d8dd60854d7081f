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
  door_file_->lock();
  door_acceptor_.emplace(loop_.get_executor(), log_,
                         [this](unique_fd fd, const peer& who) { welcome_at_door(std::move(fd), who); });
  door_acceptor_->start(door_file_->bind());
  log_.info("front door open", log_fields().add("socket", path));
}

// libpq gives up, and tries no other host, where it cannot even send its startup packet. So whoever is to be
// refused is heard first.
void app::welcome_at_door(unique_fd fd, const peer& who) {
  if (const auto why = engine_.refusal(who)) complain_refused(who, *why);
  if (!engine_.may_knock(who)) return;
  enter([&](steady_time now) { keep(engine_.joined_at_door(who, random_word(), now), std::move(fd)); });
}

void app::watch_door() {
  if (!door_file_) return;
  const auto held = door_file_->keep_lock();
  if (held == socket_file::hold::unlockable) door_file_->mend_folder();
  std::string trouble;
  if (held == socket_file::hold::taken) {
    trouble = "another process has locked its path";
  } else if (door_file_->look() != socket_file::state::ours) {
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
               log_fields().add("socket", door_file_->path()).add("reason", door_trouble_));
}

void app::close_door() {
  if (door_acceptor_) door_acceptor_->stop();
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
