#pragma once

#include <optional>
#include <string>

#include "common/channel.hpp"
#include "common/message_codec.hpp"
#include "common/time.hpp"

namespace pgwaked {

// How one kind of worker is spoken to: the hub's messages as bytes, channels by the names that kind knows.
// What a dialect does not know it leaves out (nothing is appended). Another front door adds another of these.
class dialect {
 public:
  virtual ~dialect() = default;
  virtual std::string name(std::string_view channel) const = 0;
  // Names in `message` are the worker's own already.
  virtual void encode(std::string& out, const pgwake::from_hub& message) const = 0;
  // `wake.q` is the physical channel.
  virtual void encode(std::string& out, const pgwake::wake_view& wake) const = 0;
  // How long a `sub` of its may wait for LISTEN: then it is acked and owed a gap (S3). Nothing: as long
  // as it takes.
  virtual std::optional<pgwake::millis> patience() const { return std::nullopt; }
  // It knows what a refusal and an outage are. Who does not is closed instead, which nobody overlooks.
  virtual bool takes_no() const { return true; }
  // Its own core makes the answers: acks, refusals and gaps are told to that, not queued.
  virtual bool answers_itself() const { return false; }
};

// v1 names channels and knows every frame.
class dialect_v1 final : public dialect {
 public:
  std::string name(std::string_view channel) const override { return std::string(channel); }
  void encode(std::string& out, const pgwake::from_hub& message) const override {
    pgwake::encode(out, message);
  }
  void encode(std::string& out, const pgwake::wake_view& wake) const override { pgwake::encode(out, wake); }
};

// v0 names queues, and is sent ack, nack, wake and status alone. A pgbus worker gives up on a sub after 2.25
// s, for good if its own connection fails too, and looks at neither nack nor status.
class dialect_v0 final : public dialect {
 public:
  explicit dialect_v0(pgwake::queue_template names) : names_(std::move(names)) {}
  std::optional<pgwake::millis> patience() const override { return pgwake::millis{1'500}; }
  bool takes_no() const override { return false; }
  std::string name(std::string_view channel) const override {
    return std::string(names_.queue(channel).value_or(channel));
  }
  void encode(std::string& out, const pgwake::from_hub& message) const override;
  void encode(std::string& out, const pgwake::wake_view& wake) const override;

 private:
  pgwake::queue_template names_;
};

}  // namespace pgwaked
