#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/channel.hpp"
#include "common/frame.hpp"
#include "common/message.hpp"
#include "common/time.hpp"

namespace pgwaked {

// The channels that a worker may subscribe to, by its credentials (K1).
struct channel_access {
  bool all = true;
  std::vector<std::string> globs;  // on physical channels, when not `all`
  bool allows(std::string_view channel) const;
};

// One connection's incoming side: bytes in, requests out. Pure. Knows the dialect (v1 once `hello` came as
// first frame, else v0), names, limits and the deadline of a frame begun but not finished (K4).
//
//   fresh    nothing came yet
//   talking  the first frame came; the dialect is settled
//   broken   a protocol error: nothing more is read
class worker_protocol {
 public:
  enum class dialect { v0, v1 };

  // v1: answer with welcome.
  struct greeted {
    pgwake::hello hello;
  };
  struct spoke {};  // v0: its first frame came, it gets status frames now
  struct subscribe {
    std::string channel;
  };
  struct unsubscribe {
    std::string channel;
  };
  struct reject {
    pgwake::nack nack;
  };
  struct pinged {
    std::uint64_t id;
  };
  struct asked_stats {};
  struct asked_control {
    pgwake::control_request control;
  };
  // An unknown frame.
  struct ignored {
    std::string t;
  };
  struct broken {
    std::string reason;
  };
  using event = std::variant<greeted, spoke, subscribe, unsubscribe, reject, pinged, asked_stats,
                             asked_control, ignored, broken>;

  worker_protocol(pgwake::queue_template queues, channel_access access, pgwake::millis frame_deadline)
      : queues_(std::move(queues)), access_(std::move(access)), frame_deadline_(frame_deadline) {}

  void bytes(std::string_view data);
  // What its next frame asks; false when no whole one has come.
  bool next(pgwake::steady_time now, std::vector<event>& out);
  // All of them at once.
  void bytes(std::string_view data, pgwake::steady_time now, std::vector<event>& out);
  // A frame begun too long ago is a protocol error.
  void tick(pgwake::steady_time now, std::vector<event>& out);
  std::optional<pgwake::steady_time> deadline() const;
  // Nothing was read from it of late (D7), which is no fault of its own: an unfinished frame's
  // time begins anew.
  void excuse(pgwake::steady_time now) {
    if (begun_) begun_ = now;
  }

  dialect speaks() const { return dialect_; }
  std::size_t held() const { return reader_.held(); }    // bytes of frames not taken yet
  bool fresh() const { return state_ == state::fresh; }  // its dialect is not settled
  bool is_broken() const { return state_ == state::broken; }

 private:
  enum class state { fresh, talking, broken };

  void frame(std::string_view body, std::vector<event>& out);
  void take(pgwake::from_worker& message, bool first, std::vector<event>& out);
  void take_sub(pgwake::wire_name& q, std::vector<event>& out);
  void fail(std::string reason, std::vector<event>& out);
  std::string channel_of(const std::string& q) const;

  pgwake::queue_template queues_;
  channel_access access_;
  pgwake::millis frame_deadline_;
  pgwake::frame_reader reader_{pgwake::max_frame_from_worker};
  state state_ = state::fresh;
  dialect dialect_ = dialect::v0;
  bool finished_one_ = false;                 // since it was last looked whether one is begun
  std::optional<pgwake::steady_time> begun_;  // when the unfinished frame began
};

}  // namespace pgwaked
