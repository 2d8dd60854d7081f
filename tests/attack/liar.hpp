#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "attack/attack.hpp"

namespace pgwake::attack {

/// One message of PostgreSQL's protocol, version 3: the type, the length, the body.
std::string message(char type, std::string_view body = {});
std::string int16(int value);
std::string int32(std::uint32_t value);

/// Stands before a real server and relays, until a client's bytes hold `trigger`: from then on that
/// connection is the liar's, who says `first` once and then `again` for as long as anybody reads.
class liar {
 public:
  liar(int server_port, std::string trigger, std::string first, std::string again);
  liar(const liar&) = delete;
  liar& operator=(const liar&) = delete;
  ~liar();

  std::string conninfo(std::string_view database) const;
  int lies() const { return lies_; }  ///< connections that it has taken over

 private:
  void accept_all();
  void relay(int client);
  void lie(int client);

  int server_port_;
  int port_;
  std::string trigger_;
  std::string first_;
  std::string again_;
  int listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> lies_ = 0;
  std::vector<std::thread> links_;
  std::thread acceptor_;
};

}  // namespace pgwake::attack
