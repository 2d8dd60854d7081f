#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/hub_daemon.hpp"
#include "support/raw_worker.hpp"

namespace pgwake::test {

/// What takes minutes at its full length, and is cut short for those who wait: scripts/test --all sets it.
inline bool in_full() { return std::getenv("CASES_IN_FULL") != nullptr; }

struct rig_options {
  std::vector<std::string> arguments{};
  std::string encoding = "UTF8";
  bool through_proxy = false;  ///< then `proxy()` stands between hub and PostgreSQL
  readiness until = readiness::healthy;
  std::string more_conninfo{};
};

/// A hub on a database of its own in the shared cluster.
class rig {
 public:
  explicit rig(rig_options options = {})
      : database_(pg().new_database(options.encoding)), hub_(with_proxy(options)) {}

  static cluster& pg() { return cluster::shared(); }
  const std::string& database() const { return database_; }
  fault_proxy& proxy() { return *proxy_; }
  hub_daemon& hub() { return hub_; }

  raw_worker worker(std::string_view name = {}) const { return hub_.connect_v1(name); }
  raw_worker v0() const { return hub_.connect(); }
  void notify(std::string_view channel, std::string_view payload = {}) const {
    pg().notify(channel, payload, database_);
  }
  void sql(const std::string& text) const { pg().exec(text, database_); }
  connection publisher() const { return pg().connect(database_); }

  /// The hub's backends in this database.
  std::vector<int> backends() const {
    std::vector<int> pids;
    for (const auto& row : pg().exec("SELECT pid FROM pg_stat_activity WHERE datname = '" + database_ +
                                     "' AND application_name LIKE 'pgwaked@%'"))
      pids.push_back(std::stoi(row[0].value()));
    return pids;
  }
  int census() const { return static_cast<int>(backends().size()); }
  /// Ends the hub's session on the server; false where there is none.
  bool terminate() const {
    const auto pids = backends();
    for (const int pid : pids) pg().terminate(pid);
    return !pids.empty();
  }

  /// Queries that passed the proxy and begin with `verb`.
  std::vector<std::string> queries(std::string_view verb) const {
    std::vector<std::string> found;
    for (auto& query : proxy_->queries())
      if (query.compare(0, verb.size(), verb) == 0) found.push_back(std::move(query));
    return found;
  }

 private:
  hub_options with_proxy(const rig_options& options) {
    if (options.through_proxy) proxy_.emplace(pg());
    const std::string target = options.through_proxy ? proxy_->conninfo(database_) : pg().conninfo(database_);
    return {
        .database = target + options.more_conninfo, .arguments = options.arguments, .until = options.until};
  }

  std::string database_;
  std::optional<fault_proxy> proxy_{};
  hub_daemon hub_;
};

inline std::size_t count_of(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size()))
    ++count;
  return count;
}

}  // namespace pgwake::test
