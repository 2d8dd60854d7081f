#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "common/frame.hpp"
#include "common/message.hpp"
#include "daemon/socket_file.hpp"

namespace pgwaked {

// Why an operator's command got no answer from a hub.
struct hub_failure {
  enum class kind {
    wrong_path,  // too long, or no socket at all
    absent,      // no such file
    stale,       // a socket file, and nobody behind it
    denied,      // the file's permissions
    no_socket,   // a hub holds the lock, and its socket is not there: it stops, or starts
    refused,     // the hub said `bye`
    silent,      // the deadline passed
    broken,      // the connection was lost, or what came is not the protocol
  };
  kind what;
  std::string message;  // for people: what happened, to which socket, what to do
  // A hub is alive, though it does not serve us.
  bool running() const { return what >= kind::no_socket; }
};

// A blocking connection to a hub, for one-off commands: v1, every step within the time given. One thread.
class hub_client {
 public:
  // Connects and says hello as `name`. `patience` covers each call as a whole.
  static boost::system::result<hub_client, hub_failure> open(std::string path, std::string_view name,
                                                             std::chrono::milliseconds patience);

  // The hub's `stats` object, as JSON.
  boost::system::result<std::string, hub_failure> stats();
  // What the hub says to an operator's wish.
  boost::system::result<pgwake::control_answer, hub_failure> control(const pgwake::control_request& wish);

  const pgwake::welcome& welcomed() const { return welcome_; }
  const std::string& path() const { return path_; }
  // Whose the listening socket is, by SO_PEERCRED.
  std::uint32_t server_uid() const;

 private:
  using deadline = std::chrono::steady_clock::time_point;
  hub_client(std::string path, std::chrono::milliseconds patience)
      : path_(std::move(path)), patience_(patience) {}

  boost::system::result<void, hub_failure> connect(deadline until);
  boost::system::result<void, hub_failure> send(const pgwake::from_worker& message, deadline until);
  // The next frame of kind Message; others are passed over, `bye` is a failure.
  template <typename Message>
  boost::system::result<Message, hub_failure> await(deadline until);
  boost::system::result<pgwake::from_hub, hub_failure> next(deadline until);
  boost::system::result<void, hub_failure> wait(short events, deadline until);
  hub_failure connect_failure(int error) const;
  hub_failure lost(int error) const;
  hub_failure silent() const;

  std::string path_;
  std::chrono::milliseconds patience_;
  unique_fd fd_;
  pgwake::frame_reader reader_{pgwake::max_frame_from_hub};
  pgwake::welcome welcome_;
};

}  // namespace pgwaked
