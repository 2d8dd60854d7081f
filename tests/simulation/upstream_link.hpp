#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "common/upstream.hpp"
#include "simulation/database.hpp"

namespace pgwake::simulation {

// One client's connection to the model database, as both ends see it: they may differ for a long time.
struct upstream_link {
  enum class view { none, connecting, open };

  struct packet {
    enum class kind { notification, result, end };
    steady_time at;
    kind what;
    database::notification notification{};
    database::answer answer{};
  };

  view client = view::none;
  bool awaiting = false;  // the client's query is unanswered
  std::string sql;        // that query

  // The server's end; null once the server has ended it.
  std::shared_ptr<database::session> server;
  // What the session was, for the truth; outlives `server`.
  std::shared_ptr<database::session> record;
  bool busy = false;        // the server runs a command of it
  bool black_hole = false;  // nothing passes any more, and nobody is told
  bool deaf = false;        // notifications alone do not pass (a pooler in between)
  bool pooled = false;
  std::deque<packet> arriving;
  std::uint64_t generation = 0;  // of the session: what was scheduled for an older one is void

  bool has_arrived(steady_time now) const { return !arriving.empty() && arriving.front().at <= now; }
};

}  // namespace pgwake::simulation
