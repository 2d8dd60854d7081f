#pragma once

#include <optional>
#include <string>

#include "common/time.hpp"

namespace pgwake::client {

// The right to have an own connection, where their number on this host is limited (C11). A shell asks for it, with a
// lock on a file; the answer comes later.
class own_slot {
 public:
  explicit own_slot(millis retry) : retry_(retry) {}

  void asked() { asked_ = true; }
  // `random`: from 0 to 1, so that those who wait do not all ask again at one instant.
  void answered(bool granted, std::string trouble, double random, steady_time now);
  // True: there is one to be given back.
  bool give_back();
  // No own connection is wanted any more.
  void unwanted() { missed_ = false; }

  bool held() const { return held_; }
  bool missed() const { return missed_; }  // wanted and not to be had: as under the policy `poll`
  bool awaited() const { return asked_; }
  bool may_ask(steady_time now) const { return !asked_ && !(missed_ && now < again_); }
  const std::string& trouble() const { return trouble_; }  // why the last one was not granted

  // When to ask again.
  std::optional<steady_time> deadline() const;

 private:
  millis retry_;
  bool held_ = false;
  bool asked_ = false;
  bool missed_ = false;
  std::string trouble_;
  steady_time again_{};
};

}  // namespace pgwake::client
