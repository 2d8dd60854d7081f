#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "common/frame.hpp"
#include "common/message.hpp"
#include "daemon/io/socket_file.hpp"
#include "daemon/operator/hub_failure.hpp"
#include "daemon/settings/options.hpp"

namespace pgwaked {

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
  std::string foreigner() const;

  std::string path_;
  std::chrono::milliseconds patience_;
  unique_fd fd_;
  pgwake::frame_reader reader_{pgwake::max_frame_from_hub};
  pgwake::welcome welcome_;
};

// The socket that a command asks at: as the settings have it; where nobody named
// one, see pgwake::socket_when_unnamed().
std::string hub_socket(const loaded& what);

}  // namespace pgwaked
