#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/door/name_set.hpp"
#include "daemon/door/statement.hpp"
#include "daemon/door/values.hpp"
#include "daemon/door/virtual_settings.hpp"
#include "daemon/door/wire.hpp"

namespace pgwaked::door {

inline constexpr std::array<std::string_view, std::variant_size_v<statement>> statement_kinds{
    "listen",     "unlisten",   "do_listen",           "begin",  "commit",
    "rollback",   "set",        "set_characteristics", "reset",  "show",
    "discard",    "deallocate", "close_all",           "select", "listening_channels",
    "listens_to", "pg_type"};

// What sessions were asked and answered, all together.
struct tally {
  std::array<std::uint64_t, statement_kinds.size()> done{};
  // By SQLSTATE; the two usual ones from the start, so that a rate of them is 0 and not absent.
  std::map<std::string, std::uint64_t, std::less<>> errors{{"0A000", 0}, {"57P03", 0}};
};

// One connection of the front door: PostgreSQL's protocol on one side, subscriptions on the other. Pure:
// bytes go in, requests to its owner and the bytes of answers come out. It knows nothing of the hub; the
// owner subscribes for it, tells it what came of it, and sends what it says.
//
//   startup     encryption requests and the startup packet
//   admission   the owner has been asked; admit() or close() follows
//   ready       takes messages
//   subscribing a LISTEN waits for its acks (P8); messages stay unread
//   closed      nothing more is read or said
//
// Invariants: whatever the client has sent beyond the present message waits unread while subscribing. A
// channel is subscribed at the owner exactly while it is in `subscribed_`. What the session listens to
// changes at the end of a transaction alone (P10), and one simple query outside of a block is one transaction
// (P9). Notifications may be sent while idle() (P12): between messages, outside of a transaction.
class session {
 public:
  struct identity {
    std::string database;
    std::string user;
    std::string application_name;
    bool replication = false;
  };

  // What the owner has to do, in order.
  struct ask_admission {
    identity who;
  };
  struct subscribe {
    std::string channel;
  };  // answer acked() or refused()
  struct unsubscribe {
    std::string channel;
  };
  struct cancel {
    std::uint32_t pid;
    std::string secret;
  };  // by another connection, whose only message it is: close this one
  struct not_served {
    sql_error why;
  };              // for the log: the statement does not belong here
  struct end {};  // close, once `output()` is sent
  using action = std::variant<ask_admission, subscribe, unsubscribe, cancel, not_served, end>;

  // `pid` of at least 2^30; `secret`: the key that CancelRequest must bring, 4 bytes.
  // `counts` outlives it.
  session(std::uint32_t pid, std::string secret, tally& counts)
      : pid_(pid), secret_(std::move(secret)), tally_(&counts) {}

  void bytes(std::string_view data);
  // The answer to ask_admission: facts of the server, and settings that it reports.
  void admit(session_facts facts, std::vector<std::pair<std::string, std::string>> settings);
  // FATAL, and the end. At startup 57P03 is what makes libpq go to the next host (P4).
  void close(const sql_error& why);
  void acked(std::string_view channel);
  void refused(std::string_view channel, const sql_error& why);
  // What was said is on its way: goes on with messages that wait only because it was so much.
  void resume();
  void cancelled();  // a CancelRequest for this session: a LISTEN that waits ends with 57014

  std::vector<action>& actions() { return actions_; }
  // Bytes to send, before any notification that is sent later. The owner takes them.
  std::string& output() { return out_; }

  bool idle() const { return state_ == state::ready && tx_ == transaction_state::idle && !mid_sequence_; }
  bool subscribing() const { return state_ == state::subscribing; }
  bool closed() const { return state_ == state::closed; }
  bool mid_message() const { return state_ != state::closed && in_.mid_message(); }
  bool started() const { return state_ != state::startup; }
  bool admitted() const { return state_ == state::ready || state_ == state::subscribing; }
  const sql_error& last_words() const { return last_words_; }  // empty: the client went by itself
  bool stalled() const { return stalled_; }                    // until resume()
  std::size_t unread() const { return in_.unread(); }
  std::uint64_t messages() const { return messages_; }  // read until now
  const identity& who() const { return who_; }
  transaction_state transaction() const { return tx_; }
  bool listens_to(std::string_view channel) const { return held_.contains(channel); }
  const name_set::names& listening() const { return held_.all(); }
  std::size_t acks_held() const { return subscribed_.size(); }  // a gap on these must be told
  std::string application_name() const { return settings_.get("application_name").value_or(""); }
  std::uint32_t pid() const { return pid_; }
  const std::string& secret() const { return secret_; }
  // What it was given to keep: statements, portals, names of channels, the query that waits for its LISTEN.
  // Unread messages, unsent answers and settings are bounded for each session by themselves.
  std::size_t bytes_held() const;

  static constexpr std::size_t most_prepared = 1'000;            // statements, and portals
  static constexpr std::size_t most_prepared_bytes = 1U << 20U;  // of both together
  static constexpr std::size_t most_names_bytes = 4U << 20U;     // of the channels that it listens to
  static constexpr std::size_t most_said = 32U << 10U;  // at one go, before further messages are read
  static constexpr std::size_t most_reply = 1U << 20U;  // to one simple query

 private:
  enum class state { startup, admission, ready, subscribing, closed };

  struct prepared {
    std::optional<statement> what;  // nullopt: an empty query
    std::vector<std::uint32_t> parameter_types;
    std::size_t bytes = 0;
  };
  struct portal {
    std::optional<statement> what;
    std::vector<bound> parameters;
    std::vector<std::int16_t> formats;
    std::optional<std::vector<row>> rows;  // once it was executed
    std::size_t sent = 0;                  // of them
    std::size_t bytes = 0;                 // without the rows
    std::size_t bytes_of_rows = 0;
  };
  // What goes on when the subscriptions that a LISTEN waits for are there.
  struct task {
    std::vector<statement> statements;  // of a simple query
    std::size_t next = 0;
    bool simple = false;
    std::size_t bytes = 0;  // of the statements
    std::string reply;      // held until nothing of the message can fail
    std::string tag;        // of the statement that waits
    bool commits = false;   // which ends the transaction
  };
  enum class outcome { done, waiting, failed };

  // session.cpp: startup, messages, waiting
  void read();
  void take_startup(std::string_view body);
  void take(char type, std::string_view body);
  void fail(const sql_error& e);
  void violation(std::string what);
  void simple_query(std::string_view sql);
  void go_on();
  void finish_simple();

  // session_extended.cpp: Parse, Bind, Describe, Execute, Close, Sync
  void take_parse(body_reader& r);
  void take_bind(body_reader& r);
  void take_describe(body_reader& r);
  void take_execute(body_reader& r);
  void take_close(body_reader& r);
  void take_sync();
  void put_formatted_columns(std::vector<column> columns, const std::vector<std::int16_t>& formats);
  void send_rows(portal& p, std::int32_t most);
  bool keep_rows(portal& p);
  bool room_for(std::size_t bytes);
  void forget_statement(std::string_view name);
  void forget_statements();
  void forget_portal(std::string_view name);
  void forget_portals();
  bool statement_ok_now(const std::optional<statement>& s);

  // session_statements.cpp: what a statement does
  outcome execute(const statement& s, const std::vector<bound>& parameters, std::vector<row>* rows);
  outcome want(const std::vector<channel_name>& channels, std::string tag);
  outcome commit(std::string tag);
  void committed();
  void roll_back();
  outcome await(const name_set& wanted, std::string tag);
  void drop_unheld();
  void discard_all();
  void tell(const virtual_settings::reports& reports);
  void ready();
  void warn(std::string sqlstate, std::string message);
  bool explicit_block() const { return tx_ != transaction_state::idle; }

  std::uint32_t pid_;
  std::string secret_;
  tally* tally_;
  state state_ = state::startup;
  client_reader in_;
  std::string out_;
  std::vector<action> actions_;
  identity who_;
  session_facts facts_;
  virtual_settings settings_;
  std::vector<std::pair<std::string, std::string>> startup_settings_;
  std::vector<std::string> unknown_options_;
  std::uint32_t minor_ = 0;
  std::uint64_t messages_ = 0;
  bool stalled_ = false;
  sql_error last_words_;

  transaction_state tx_ = transaction_state::idle;
  name_set held_;        // what the session listens to
  name_set view_;        // and what it will after the transaction
  name_set subscribed_;  // acked by the owner
  name_set awaited_;     // asked of the owner, unanswered
  task task_;
  std::optional<sql_error> error_;              // of what is being executed
  bool mid_sequence_ = false;                   // an extended sequence has begun, its Sync has not come
  bool skipping_ = false;                       // after an error, up to the Sync
  std::map<std::string, std::string> changed_;  // settings, to be reported
  std::map<std::string, prepared, std::less<>> prepared_;
  std::map<std::string, portal, std::less<>> portals_;
  std::size_t prepared_bytes_ = 0;  // of both
};

}  // namespace pgwaked::door
