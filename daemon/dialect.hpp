#pragma once

#include <string>

#include "common/channel.hpp"
#include "common/message_codec.hpp"

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

// v0 names queues, and knows ack, nack, wake and status alone.
class dialect_v0 final : public dialect {
 public:
  explicit dialect_v0(pgwake::queue_template names) : names_(std::move(names)) {}
  std::string name(std::string_view channel) const override {
    return std::string(names_.queue(channel).value_or(channel));
  }
  void encode(std::string& out, const pgwake::from_hub& message) const override;
  void encode(std::string& out, const pgwake::wake_view& wake) const override;

 private:
  pgwake::queue_template names_;
};

}  // namespace pgwaked
