#include "daemon/io/listening_path.hpp"

#include <stdexcept>
#include <utility>

namespace pgwaked {

using pgwake::log_fields;

listening_path::listening_path(boost::asio::any_io_executor executor, log& out, std::string name,
                               socket_file::settings s, acceptor::handler on_client)
    : log_(out),
      name_(std::move(name)),
      file_(std::move(s)),
      acceptor_(std::move(executor), out, std::move(on_client)) {}

void listening_path::open(unique_fd passed) {
  activated_ = static_cast<bool>(passed);
  file_.lock();
  if (activated_) file_.adopt();
  acceptor_.start(activated_ ? std::move(passed) : file_.bind());
}

void listening_path::close() {
  acceptor_.stop(activated_ ? acceptor::waiting::leave : acceptor::waiting::take);
  file_.remove();
}

listening_path::state listening_path::look() {
  auto held = file_.keep_lock();
  const auto there = file_.look();
  if (held == socket_file::hold::taken) return state::displaced;
  std::string trouble;
  if (there == socket_file::state::gone && !activated_ && held == socket_file::hold::unlockable) {
    file_.mend_folder();
    held = file_.keep_lock();
  }
  if (there == socket_file::state::gone)
    trouble = "the socket file is gone";
  else if (there == socket_file::state::foreign)
    trouble = "the path leads to something else than the hub's socket";
  else if (held == socket_file::hold::unlockable)
    trouble = "the lock file cannot be made";
  if (!activated_ && there != socket_file::state::ours) trouble = bind_again(trouble);
  const bool lost = !trouble.empty();
  say(std::move(trouble), there == socket_file::state::foreign);
  return lost ? state::lost : state::served;
}

void listening_path::say(std::string trouble, bool foreign) {
  if (trouble == trouble_) return;
  trouble_ = std::move(trouble);
  if (trouble_.empty()) return log_.info(name_ + " is back", log_fields().add("socket", path()));
  log_.error(
      name_ + " lost",
      log_fields().add("socket", path()).add("reason", trouble_).add("what_to_do", how_to_mend(foreign)));
}

// What is wrong still; nothing once clients can connect again.
std::string listening_path::bind_again(const std::string& trouble) {
  try {
    auto fresh = file_.bind();
    acceptor_.stop();
    acceptor_.start(std::move(fresh));
    if (trouble_.empty())  // else it is said that it is back
      log_.warning(name_ + " bound again", log_fields().add("socket", path()).add("reason", trouble));
    return {};
  } catch (const std::exception& e) {
    return trouble + "; " + e.what();
  }
}

std::string listening_path::how_to_mend(bool foreign) const {
  if (activated_)
    return "it is the socket unit's, which makes it anew: systemctl stop pgwaked@NAME.socket "
           "pgwaked@NAME.service && systemctl start pgwaked@NAME.socket pgwaked@NAME.service";
  if (foreign)
    return "stop what listens there instead (ss -xlp names it) and remove its file; the hub tries to bind "
           "once a second";
  return "give the hub its folder back (its user must own it or may write there), or restart it; it tries "
         "once a second";
}

}  // namespace pgwaked
