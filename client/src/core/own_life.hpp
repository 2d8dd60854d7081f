#pragma once

#include <string>

namespace pgwake::client {

// The life of the own connection, without what flows over it.
//
//   off       not wanted
//   starting  wanted; the session below tries, again and again
//   live      its session listens
class own_life {
 public:
  enum class state { off, starting, live };

  void begin();
  void end();
  // Each is false, and changes nothing, in a state in which it comes too late.
  bool became_live(const std::string& database, const std::string& system_id, int backend);
  bool lost(std::string reason);
  bool failed(std::string reason);  // an attempt; there will be another one

  bool off() const { return state_ == state::off; }
  bool starting() const { return state_ == state::starting; }
  bool live() const { return state_ == state::live; }
  const std::string& reason() const { return reason_; }  // why not live; empty if it is, or was never tried

  // Of the session that is live, or was last.
  const std::string& database() const { return database_; }
  const std::string& system_id() const { return system_id_; }
  int backend() const { return backend_; }  // its process ID, as notifications name it; 0: never any

 private:
  state state_ = state::off;
  std::string reason_;
  std::string database_;
  std::string system_id_;
  int backend_ = 0;
};

}  // namespace pgwake::client
