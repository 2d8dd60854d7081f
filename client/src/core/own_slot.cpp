#include "client/src/core/own_slot.hpp"

#include <utility>

#include "common/backoff.hpp"

namespace pgwake::client {

void own_slot::answered(bool granted, std::string trouble, double random, steady_time now) {
  asked_ = false;
  missed_ = !granted;
  held_ = granted;
  trouble_ = std::move(trouble);
  again_ = now + retry_ - part_of(retry_, random / 4);
}

bool own_slot::give_back() { return std::exchange(held_, false); }

std::optional<steady_time> own_slot::deadline() const {
  if (missed_ && !asked_) return again_;
  return std::nullopt;
}

}  // namespace pgwake::client
