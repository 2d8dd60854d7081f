#include "client/src/core/own_life.hpp"

#include <utility>

namespace pgwake::client {

void own_life::begin() {
  state_ = state::starting;
  reason_ = "connecting";
}

void own_life::end() { state_ = state::off; }

bool own_life::became_live(const std::string& database, const std::string& system_id, int backend) {
  if (state_ != state::starting) return false;
  state_ = state::live;
  reason_.clear();
  database_ = database;
  system_id_ = system_id;
  backend_ = backend;
  return true;
}

bool own_life::lost(std::string reason) {
  if (state_ != state::live) return false;
  state_ = state::starting;
  reason_ = std::move(reason);
  return true;
}

bool own_life::failed(std::string reason) {
  if (state_ != state::starting) return false;
  reason_ = std::move(reason);
  return true;
}

}  // namespace pgwake::client
