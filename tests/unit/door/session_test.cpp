#include "daemon/door/session.hpp"

#include <catch2/catch.hpp>
#include <utility>

#include "unit/door/packets.hpp"

using namespace pgwaked::door;
using namespace pgwake::test;

namespace {

// A client of the door, and its owner that acks when it is told to.
class client {
 public:
  client() {
    s.bytes(startup(text("user") + text("app") + text("database") + text("shop")));
    admit();
    read();
  }
  explicit client(std::nullptr_t) {}

  void admit() {
    s.actions().clear();
    s.admit({"PostgreSQL 15.18 on x86_64", "shop", "app"}, {{"server_version", "15.18"}});
  }
  void query(std::string_view sql) { s.bytes(message('Q', text(sql))); }
  std::string ask(std::string_view sql) {
    query(sql);
    return read();
  }
  void parse(std::string_view name, std::string_view sql) {
    s.bytes(message('P', text(name) + text(sql) + int16_of(0)));
  }
  void bind(std::string_view from, std::vector<std::string> parameters = {}, int result_format = 0) {
    auto body = text("") + text(from) + int16_of(0) + int16_of(static_cast<int>(parameters.size()));
    for (const auto& p : parameters) body += int32_of(static_cast<std::uint32_t>(p.size())) + p;
    s.bytes(message('B', body + int16_of(1) + int16_of(result_format)));
  }
  void describe(char what, std::string_view name) { s.bytes(message('D', what + text(name))); }
  void execute() { s.bytes(message('E', text("") + int32_of(0))); }
  void sync() { s.bytes(message('S', "")); }

  std::string read() { return in_words(s.output()); }

  // What the owner is asked: "+c" subscribe, "-c" unsubscribe, "end".
  std::string asked() {
    std::string words;
    for (const auto& a : std::exchange(s.actions(), {})) {
      if (!words.empty()) words += ' ';
      if (const auto* x = std::get_if<session::subscribe>(&a)) words += "+" + x->channel;
      if (const auto* x = std::get_if<session::unsubscribe>(&a)) words += "-" + x->channel;
      if (std::holds_alternative<session::ask_admission>(a)) words += "admission";
      if (std::holds_alternative<session::cancel>(a)) words += "cancel";
      if (std::holds_alternative<session::end>(a)) words += "end";
    }
    return words;
  }

  tally counts;
  session s{1U << 30U, "key!", counts};
};

}  // namespace

TEST_CASE("P2: encryption is declined, and startup goes on") {
  client c(nullptr);
  c.s.bytes(int32_of(8) + int32_of(80'877'103));
  c.s.bytes(int32_of(8) + int32_of(80'877'104));
  CHECK(std::exchange(c.s.output(), {}) == "NN");
  c.s.bytes(startup(text("user") + text("app")));
  CHECK(c.asked() == "admission");
  CHECK(c.s.who().database == "app");
}

TEST_CASE("P2: other protocols, replication and malformed packets end the connection") {
  const auto said = [](const std::string& bytes) {
    client c(nullptr);
    c.s.bytes(bytes);
    return c.read() + " " + c.asked();
  };
  CHECK(said(startup(text("user") + text("a"), 2U << 16U)) == "!0A000 end");
  CHECK(said(startup(text("user") + text("a") + text("replication") + text("true"))) == "!0A000 end");
  CHECK(said(startup(text("database") + text("a"))) == "!28000 end");
  CHECK(said(int32_of(10'001) + int32_of(3U << 16U)) == "!08P01 end");
  CHECK(said(int32_of(4)) == "!08P01 end");
  client c(nullptr);
  c.s.bytes(startup(text("user") + text("a") + text("_pq_.x") + text("1"), (3U << 16U) + 2));
  c.admit();
  CHECK(c.read().substr(0, 3) == "v R");
}

TEST_CASE("P5: what the server reports, and what the startup packet sets") {
  client c(nullptr);
  c.s.bytes(startup(text("user") + text("app") + text("application_name") + text("job 1") + text("options") +
                    text("-c DateStyle=German --statement-timeout=5s")));
  c.admit();
  const auto words = c.read();
  for (const auto* word :
       {"application_name=job 1", "DateStyle=German, DMY", "client_encoding=UTF8", "server_version=15.18",
        "is_superuser=off", "in_hot_standby=off", "integer_datetimes=on"}) {
    INFO(word);
    CHECK(words.find(word) != std::string::npos);
  }
  CHECK(words.substr(words.size() - 5) == "K (I)");
  CHECK(c.ask("SHOW statement_timeout") == "T [5s] SHOW (I)");
  for (const auto& [name, value] : {std::pair("client_encoding", "LATIN1"), std::pair("DateStyle", "none"),
                                    std::pair("standard_conforming_strings", "maybe")}) {
    INFO(name);
    client refused(nullptr);
    refused.s.bytes(startup(text("user") + text("a") + text(name) + text(value)));
    refused.admit();
    CHECK(refused.read() == "!22023");
  }
}

TEST_CASE("P6: a CancelRequest names its session and is no worker") {
  client c(nullptr);
  c.s.bytes(int32_of(16) + int32_of(80'877'102) + int32_of(1U << 30U) + "key!");
  CHECK(c.asked() == "cancel end");
  CHECK(c.read().empty());
}

TEST_CASE("P6: a LISTEN that waits is cancelled") {
  client c;
  c.query("LISTEN a");
  CHECK(c.asked() == "+a");
  c.s.cancelled();
  CHECK(c.read() == "!57014 (I)");
  CHECK(c.asked() == "-a");
  CHECK(c.ask("SELECT 1") == "T [1] SELECT 1 (I)");
}

TEST_CASE("P8: LISTEN completes when its channel is acked, and ready follows all of the message") {
  client c;
  c.query("LISTEN a; LISTEN \"B\"");
  CHECK(c.asked() == "+B +a");
  CHECK(c.read().empty());
  CHECK(c.s.subscribing());
  c.s.acked("a");
  CHECK(c.read().empty());
  c.s.acked("B");
  CHECK(c.read() == "LISTEN LISTEN (I)");
  CHECK(c.s.listens_to("B"));
  CHECK(c.ask("LISTEN a") == "LISTEN (I)");  // held already
  CHECK(c.asked().empty());
}

TEST_CASE("P8: what comes behind a LISTEN that waits is not read before") {
  client c;
  c.query("LISTEN a");
  c.query("SELECT 1");
  CHECK(c.read().empty());
  c.s.acked("a");
  CHECK(c.read() == "LISTEN (I) T [1] SELECT 1 (I)");
}

TEST_CASE("P9: if one LISTEN is refused, none of the message holds") {
  client c;
  c.query("LISTEN a; LISTEN b; SELECT 1");
  CHECK(c.asked() == "+a +b");
  c.s.acked("a");
  c.s.refused("b", {"42501", "forbidden", {}});
  CHECK(c.read() == "!42501 (I)");
  CHECK(c.asked() == "-a");
  CHECK(!c.s.listens_to("a"));
  CHECK(c.ask("SELECT 1; SELECT * FROM t") == "!0A000 (I)");
}

TEST_CASE("P10: in a block LISTEN takes effect at COMMIT") {
  client c;
  CHECK(c.ask("BEGIN") == "BEGIN (T)");
  CHECK(c.ask("LISTEN a") == "LISTEN (T)");
  CHECK(c.asked().empty());
  c.query("COMMIT");
  CHECK(c.asked() == "+a");
  CHECK(c.read().empty());
  CHECK(!c.s.idle());
  c.s.acked("a");
  CHECK(c.read() == "COMMIT (I)");
  CHECK(c.s.idle());
  CHECK(c.ask("BEGIN; UNLISTEN a; ROLLBACK") == "BEGIN UNLISTEN ROLLBACK (I)");
  CHECK(c.s.listens_to("a"));
  CHECK(c.ask("UNLISTEN *") == "UNLISTEN (I)");
  CHECK(c.asked() == "-a");
}

TEST_CASE("P10: after an error nothing but the end of the block is taken") {
  client c;
  CHECK(c.ask("BEGIN") == "BEGIN (T)");
  CHECK(c.ask("LISTEN table") == "!42601 (E)");
  CHECK(c.ask("SELECT 1") == "!25P02 (E)");
  CHECK(c.ask("COMMIT") == "ROLLBACK (I)");
  CHECK(c.ask("BEGIN") == "BEGIN (T)");
  c.ask("LISTEN a");
  c.query("COMMIT");
  c.s.refused("a", {"53400", "too many", {}});
  CHECK(c.read() == "!53400 (I)");
}

TEST_CASE("P10: warnings as PostgreSQL gives them") {
  client c;
  CHECK(c.ask("COMMIT") == "~25P01 COMMIT (I)");
  CHECK(c.ask("ROLLBACK") == "~25P01 ROLLBACK (I)");
  CHECK(c.ask("BEGIN; BEGIN") == "BEGIN ~25001 BEGIN (T)");
}

TEST_CASE("P11: a name that is cut is told") {
  client c;
  c.query("LISTEN " + std::string(70, 'x'));
  CHECK(c.asked() == "+" + std::string(63, 'x'));
  c.s.acked(std::string(63, 'x'));
  CHECK(c.read() == "~42622 LISTEN (I)");
}

TEST_CASE("P12: notifications go out only while idle and outside of a transaction") {
  client c;
  CHECK(c.s.idle());
  c.ask("BEGIN");
  CHECK(!c.s.idle());
  c.ask("ROLLBACK");
  CHECK(c.s.idle());
  c.parse("", "SELECT 1");
  CHECK(!c.s.idle());
  c.sync();
  CHECK(c.s.idle());
}

TEST_CASE("P16: the session tells about itself") {
  client c;
  CHECK(c.ask("SELECT pg_backend_pid()") == "T [1073741824] SELECT 1 (I)");
  c.query("LISTEN a");
  c.s.acked("a");
  c.read();
  CHECK(c.ask("SELECT * FROM pg_listening_channels()") == "T [a] SELECT 1 (I)");
  CHECK(c.ask("SELECT EXISTS (SELECT 1 FROM pg_listening_channels() AS c WHERE c = 'b')") ==
        "T [f] SELECT 1 (I)");
  CHECK(c.ask("SELECT current_user, current_database(), coalesce(NULL, 'x')") ==
        "T [app,shop,x] SELECT 1 (I)");
}

TEST_CASE("P17: probes are answered without the server") {
  client c;
  CHECK(c.ask("") == "I (I)");
  CHECK(c.ask("-- ping") == "I (I)");
  CHECK(c.ask("SELECT 1") == "T [1] SELECT 1 (I)");
  CHECK(c.ask("SHOW transaction_read_only") == "T [off] SHOW (I)");
  CHECK(c.ask("SHOW nothing") == "!42704 (I)");
  CHECK(c.ask("SELECT typname FROM pg_type WHERE oid = 1") == "T SELECT 0 (I)");
  c.sync();
  CHECK(c.read() == "(I)");
}

TEST_CASE("door: settings are the session's own, and follow its transactions") {
  client c;
  CHECK(c.ask("SET application_name TO 'x'") == "SET application_name=x (I)");
  CHECK(c.ask("SET client_encoding TO 'LATIN1'") == "!22023 (I)");
  CHECK(c.ask("SET server_version = '1'") == "!55P02 (I)");
  CHECK(c.ask("SET nothing = 1") == "!42704 (I)");
  CHECK(c.ask("SET my.own = 1; SHOW my.own") == "SET T [1] SHOW (I)");
  c.ask("BEGIN");
  CHECK(c.ask("SET application_name = 'y'") == "SET application_name=y (T)");
  CHECK(c.ask("ROLLBACK") == "ROLLBACK application_name=x (I)");
  CHECK(
      c.ask(
          "BEGIN; SET LOCAL statement_timeout = 7; SHOW statement_timeout; COMMIT; SHOW statement_timeout") ==
      "BEGIN SET T [7] SHOW COMMIT T [0] SHOW (I)");
  CHECK(c.ask("DISCARD ALL") == "DISCARD ALL application_name= (I)");
}

TEST_CASE("door: the extended protocol, as asyncpg and postgres.js speak it") {
  client c;
  c.parse("s1", "LISTEN a");
  c.describe('S', "s1");
  CHECK(c.read() == "1 t n");
  c.bind("s1");
  c.execute();
  CHECK(c.asked() == "+a");
  CHECK(c.read() == "2");
  c.sync();
  CHECK(c.read().empty());
  c.s.acked("a");
  CHECK(c.read() == "LISTEN (I)");
  CHECK(c.s.listens_to("a"));
  c.parse("", "SELECT $1");
  c.bind("", {"x"});
  c.describe('P', "");
  c.execute();
  c.sync();
  CHECK(c.read() == "1 2 T [x] SELECT 1 (I)");
  c.parse("", "SELECT 1::int4");
  c.bind("", {}, 1);
  c.execute();
  c.sync();
  CHECK(c.read() == std::string("1 2 [\0\0\0\1] SELECT 1 (I)", 23));
}

TEST_CASE("door: an error in the extended protocol skips to Sync, and what it had subscribed goes") {
  client c;
  c.parse("", "LISTEN a");
  c.bind("");
  c.execute();
  c.s.acked("a");
  c.asked();
  c.parse("", "SELECT * FROM t");
  c.execute();
  CHECK(c.read() == "1 2 LISTEN !0A000");
  c.sync();
  CHECK(c.read() == "(I)");
  CHECK(c.asked() == "-a");
  CHECK(!c.s.listens_to("a"));
  c.bind("none");
  c.sync();
  CHECK(c.read() == "!26000 (I)");
}

TEST_CASE("door: COPY and unknown messages end the connection, FunctionCall does not") {
  client c;
  c.s.bytes(message('F', "x"));
  CHECK(c.read() == "!0A000 (I)");
  c.s.bytes(message('d', "x"));
  CHECK(c.read() == "!08P01");
  CHECK(c.asked() == "end");
  client unknown;
  unknown.s.bytes(message('?', ""));
  CHECK(unknown.read() == "!08P01");
  client large;
  large.s.bytes(std::string("Q") + int32_of(65'537));
  CHECK(large.read() == "!08P01");
}

TEST_CASE("P19: whoever is told to go hears why first") {
  client c;
  c.s.close({"57P01", "the hub stops", {}});
  CHECK(c.read() == "!57P01");
  CHECK(c.asked() == "end");
  CHECK(c.s.closed());
}

TEST_CASE(
    "door: statements are counted by kind, errors by SQLSTATE, and what is not served is told to its owner") {
  client c;
  c.ask("SELECT 1; SELECT 2");
  c.ask("NOTIFY a");
  c.ask("LISTEN table");
  CHECK(c.counts.done[statement{select_values{}}.index()] == 2);
  CHECK(statement_kinds[statement{select_values{}}.index()] == "select");
  CHECK(statement_kinds[statement{select_nothing{}}.index()] == "pg_type");
  CHECK(c.counts.errors.at("0A000") == 1);
  CHECK(c.counts.errors.at("42601") == 1);
  std::size_t told = 0;
  for (const auto& a : c.s.actions()) told += std::holds_alternative<session::not_served>(a) ? 1 : 0;
  CHECK(told == 1);
}

TEST_CASE(
    "P20: prepared statements and portals are bounded by number and in bytes, and end gives the room back") {
  client c;
  const std::string large = "SELECT '" + std::string(60'000, 'x') + "'";
  std::size_t kept = 0;
  for (; kept < session::most_prepared; ++kept) {
    c.parse("s" + std::to_string(kept), large);
    if (c.read() == "!53400") break;
  }
  CHECK(kept >= 10);
  CHECK(kept <= session::most_prepared_bytes / large.size());
  CHECK(c.s.bytes_held() <= session::most_prepared_bytes);
  c.sync();
  CHECK(c.read() == "(I)");
  // The session goes on, with what it has.
  c.parse("", "SELECT 1");
  c.bind("");
  c.execute();
  c.sync();
  CHECK(c.read() == "1 2 [1] SELECT 1 (I)");
  CHECK(c.ask("DEALLOCATE s0") == "DEALLOCATE (I)");
  c.parse("again", large);
  c.sync();
  CHECK(c.read() == "1 (I)");
  CHECK(c.ask("DEALLOCATE ALL") == "DEALLOCATE ALL (I)");
  CHECK(c.s.bytes_held() == 0);
  for (std::size_t i = 0; i < session::most_prepared; ++i) c.parse("t" + std::to_string(i), "SELECT 1");
  c.sync();
  CHECK_THAT(c.read(), !Catch::Contains("!"));
  c.parse("one more", "SELECT 1");
  c.sync();
  CHECK(c.read() == "!53400 (I)");
}

TEST_CASE("P20: what a portal has still to send counts, what it has sent does not") {
  client c;
  std::string channels = "BEGIN";
  for (int i = 0; i < 1'000; ++i) channels += ";LISTEN c" + std::to_string(i);
  c.ask(channels + ";COMMIT");
  for (int i = 0; i < 1'000; ++i) c.s.acked("c" + std::to_string(i));
  c.read();
  const auto before = c.s.bytes_held();
  CHECK(before > 1'000 * 80);
  c.ask("BEGIN");
  const auto open = [&](const std::string& portal, std::uint32_t most) {
    c.s.bytes(message('P', text("") + text("SELECT pg_listening_channels()") + int16_of(0)));
    c.s.bytes(message('B', text(portal) + text("") + int16_of(0) + int16_of(0) + int16_of(0)));
    c.s.bytes(message('E', text(portal) + int32_of(most)));
    c.sync();
    c.s.resume();
    return c.read();
  };
  CHECK(open("all", 0).ends_with("SELECT 1000 (T)"));
  CHECK(c.s.bytes_held() < before + 4'000);
  CHECK(open("one", 1) == "1 2 [c0] s (T)");
  CHECK(c.s.bytes_held() > before + 1'000 * 50);
  std::string words;
  int portals = 0;
  while (portals < 1'000 && words.find('!') == words.npos) words = open("p" + std::to_string(++portals), 1);
  CHECK(words == "1 2 !53400 (E)");
  CHECK(portals > 3);
  CHECK(c.s.bytes_held() <= before + session::most_prepared_bytes);
  CHECK(c.ask("ROLLBACK") == "ROLLBACK (I)");
  CHECK(c.s.bytes_held() < before + 4'000);
}

TEST_CASE("P20: a transaction cannot collect names without end") {
  client c;
  c.ask("BEGIN");
  const std::string tail(50, 'x');
  std::string words;
  for (int i = 0; i < 100'000 && words.find('!') == words.npos; ++i)
    words = c.ask("LISTEN c" + std::to_string(i) + tail);
  CHECK(words == "!53400 (E)");
  CHECK(c.s.bytes_held() < session::most_names_bytes + 1'000);
  CHECK(c.ask("ROLLBACK") == "ROLLBACK (I)");
  CHECK(c.s.bytes_held() == 0);
  CHECK(c.ask("LISTEN a") == "");
}
