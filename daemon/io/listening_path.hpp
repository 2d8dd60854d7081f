#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <string>

#include "daemon/io/acceptor.hpp"
#include "daemon/io/log.hpp"
#include "daemon/io/socket_file.hpp"

namespace pgwaked {

// A path at which clients connect: its socket file with the lock, and what accepts there. Clients find the hub
// by this path: whatever is there instead of its socket is said once, and mended if it can be.
class listening_path {
 public:
  // `name`: what events call it, such as "front door".
  listening_path(boost::asio::any_io_executor executor, log& out, std::string name, socket_file::settings s,
                 acceptor::handler on_client);

  // `passed`: the service manager's socket at this path; none: it is made here. Throws std::runtime_error.
  void open(unique_fd passed);
  void close();

  // Once a second. `displaced`: another process has locked the path, so that clients reach that one; what is
  // to be done about it is the owner's to say. Else it is said when clients cannot connect any more, and when
  // they can again.
  enum class state { served, lost, displaced };
  state look();
  // Says that clients cannot connect, once for each `trouble`; with an empty one that they can again.
  void say(std::string trouble, bool foreign = false);

  const std::string& path() const { return file_.path(); }
  const std::string& trouble() const { return trouble_; }  // as said; empty: clients can connect
  bool activated() const { return activated_; }            // the socket is the service manager's
  bool folder_is_gone() const { return file_.folder_is_gone(); }

 private:
  std::string bind_again(const std::string& trouble);
  std::string how_to_mend(bool foreign) const;

  log& log_;
  std::string name_;
  socket_file file_;
  acceptor acceptor_;
  bool activated_ = false;
  std::string trouble_;
};

}  // namespace pgwaked
