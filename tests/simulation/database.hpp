#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pgwake::simulation {

// The part of PostgreSQL that LISTEN and NOTIFY see, held to the real one by replay_test.cpp.
//
// - A simple query of several statements is one transaction (unless BEGIN opened one before).
// - LISTEN and UNLISTEN take effect at commit, all or none; NOTIFYs of one transaction that are equal in
// channel and
//   payload collapse; the order of commits is the order of notifications, the same for every session.
// - A session is silent while it runs a command or has a transaction open. Then it gets everything that was
// committed
//   meanwhile on the channels it listens to *now*. One that starts to listen gets nothing from before.
// - Identifiers over 63 bytes, in the server's encoding, are cut, with notice 42622. In the wide encoding two
// characters are one (as U+00A6 and U+FFE4 are in EUC_JP), and come back as the second.
class database {
 public:
  enum class encoding { utf8, wide, latin1, ascii };  // wide: 4 bytes for each character that is not ASCII

  struct notification {
    std::size_t commit;  // its place in the order of all notifications
    std::string channel;
    std::string payload;
    int pid;
  };
  struct answer {
    bool ok = true;
    bool truncated = false;
    std::size_t completed = 0;
    std::string sqlstate;
    std::vector<std::optional<std::string>> row;
  };
  struct session {
    int pid = 0;
    std::set<std::string> listening;
    std::map<std::string, std::size_t> since;  // the place in the order from which it listens
    std::size_t position = 0;
    bool open_transaction = false;
    bool failed_transaction = false;
    struct action {
      char what;  // L, U, or * for all
      std::string channel;
    };
    std::vector<action> actions;
    std::vector<std::pair<std::string, std::string>> notifies;
  };

  explicit database(encoding e = encoding::utf8) : encoding_(e) {}

  session open() {
    session s;
    s.pid = next_pid_++;
    return s;
  }
  // Runs one simple query to its end.
  answer run(session& s, std::string_view sql);
  // What the server sends an idle session now; nothing while a transaction is open.
  std::vector<notification> take(session& s);
  // A transaction of somebody else; equal ones collapse.
  void commit(const std::vector<std::pair<std::string, std::string>>& notifies, int pid);

  std::size_t commits() const { return log_.size(); }
  const notification& at(std::size_t commit) const { return log_[commit]; }
  // Called at each notification, when it commits.
  std::function<void(const notification&)> on_commit;

  // As the server has it: with the characters that it has, and cut.
  std::string cut(std::string_view name) const;
  encoding in() const { return encoding_; }

  // Faults.
  std::map<std::string, std::string> bad_channels;  // LISTEN fails with this SQLSTATE
  std::string fail_next;                            // SQLSTATE of the next query, once
  bool recovery = false;

 private:
  void parse(std::string_view sql, answer& out) const;
  bool statement(session& s, std::string_view sql, answer& out);
  bool listen(session& s, std::string_view rest, answer& out);
  bool notify(session& s, std::string_view rest, answer& out);
  std::optional<std::string> identifier(std::string_view& rest, answer& out) const;
  std::string converted(std::string_view name) const;
  void select_names(std::string_view list, answer& out) const;
  void select(session& s, std::string_view sql, answer& out) const;
  void finish(session& s);
  void rollback(session& s);

  encoding encoding_;
  std::vector<notification> log_;
  int next_pid_ = 1000;
};

// The statements of a simple query: split at `;` outside of quotes.
std::vector<std::string_view> split_statements(std::string_view sql);

}  // namespace pgwake::simulation
