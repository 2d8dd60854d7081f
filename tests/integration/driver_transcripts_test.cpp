#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>

#include "integration/rig.hpp"

// What drivers that cannot be installed here say, written from their public sources: the bytes that their
// listening connections send at connect, to listen, at keep-alive and at reset, and how each must be answered
// for the driver to go on.
using namespace pgwake::test;

namespace {

std::string big_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}
std::string text(const std::string& s) { return s + '\0'; }
std::string length_and(const std::string& body) {
  return big_endian(static_cast<std::uint32_t>(body.size() + 4), 4) + body;
}
std::string message(char type, const std::string& body = {}) { return type + length_and(body); }

std::string startup(const std::map<std::string, std::string>& parameters, std::uint32_t minor = 0) {
  auto body = big_endian(3, 2) + big_endian(minor, 2);
  for (const auto& [name, value] : parameters) body += text(name) + text(value);
  return length_and(body + '\0');
}
std::string ssl_request() { return length_and(big_endian(80877103, 4)); }

std::string query(const std::string& sql) { return message('Q', text(sql)); }
std::string parse(const std::string& name, const std::string& sql) {
  return message('P', text(name) + text(sql) + big_endian(0, 2));
}
std::string describe(char what, const std::string& name) { return message('D', what + text(name)); }
// Without parameters; its results in `format`, 1 being binary.
std::string bind_to(const std::string& portal, const std::string& statement, std::uint32_t format = 0) {
  return message('B', text(portal) + text(statement) + big_endian(0, 2) + big_endian(0, 2) +
                          big_endian(1, 2) + big_endian(format, 2));
}
std::string execute(const std::string& portal, std::uint32_t rows = 0) {
  return message('E', text(portal) + big_endian(rows, 4));
}
std::string close_of(char what, const std::string& name) { return message('C', what + text(name)); }
std::string flush() { return message('H'); }
std::string sync() { return message('S'); }

class wire {
 public:
  explicit wire(const std::string& path) : fd_(connect_unix(path)) {}
  wire(const wire&) = delete;
  wire& operator=(const wire&) = delete;
  ~wire() { ::close(fd_); }

  void send(const std::string& bytes) const {
    REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  char byte() {
    if (!fill(1)) return '-';
    const auto c = buffer_[0];
    buffer_.erase(0, 1);
    return c;
  }
  // As many of its messages as `wanted` has, each as one word: its type, with a command's tag, an error's
  // SQLSTATE, the number of a row's columns, a transaction's state, or a notification's channel and payload.
  std::string answers(std::string_view wanted) {
    std::string all;
    for (auto n = std::count(wanted.begin(), wanted.end(), ' ') + 1; n > 0; --n) {
      if (!all.empty()) all += ' ';
      const auto word = answer();
      all += word;
      if (word == "-") break;
    }
    return all;
  }
  // After the startup message: that it is let in, and all its parameters.
  std::string let_in() {
    std::string all;
    for (;;) {
      const auto word = answer();
      if (word[0] != 'S') all += all.empty() ? word : ' ' + word;
      if (word[0] == 'Z' || word[0] == 'E' || word == "-") return all;
    }
  }

 private:
  bool fill(std::size_t bytes) {
    const auto until = deadline_in(10s);
    while (buffer_.size() < bytes) {
      pollfd p{.fd = fd_, .events = POLLIN, .revents = 0};
      const auto left = std::chrono::duration_cast<milliseconds>(until - clock::now()).count();
      if (left <= 0 || ::poll(&p, 1, static_cast<int>(left)) != 1) return false;
      char some[4096];
      const auto got = ::recv(fd_, some, sizeof some, 0);
      if (got <= 0) return false;
      buffer_.append(some, static_cast<std::size_t>(got));
    }
    return true;
  }
  static std::uint32_t number(const std::string& body, std::size_t at, int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<unsigned char>(body[at + static_cast<std::size_t>(i)]);
    return value;
  }
  std::string answer() {
    if (!fill(5)) return "-";
    const auto type = buffer_[0];
    const auto length = number(buffer_, 1, 4);
    if (!fill(1 + length)) return "-";
    const auto body = buffer_.substr(5, length - 4);
    buffer_.erase(0, 1 + length);
    return type + said(type, body);
  }
  static std::string said(char type, const std::string& body) {
    switch (type) {
      case 'C': {
        std::string tag(body.c_str());
        std::replace(tag.begin(), tag.end(), ' ', '_');
        return ':' + tag;
      }
      case 'E':
        return ':' + std::string(body.c_str() + body.find(std::string("\0C", 2)) + 2);
      case 'Z':
        return ':' + body;
      case 'T':
      case 'D':
        return ':' + std::to_string(number(body, 0, 2));
      case 'A': {
        const std::string channel(body.c_str() + 4);
        return ':' + channel + '=' + std::string(body.c_str() + 4 + channel.size() + 1);
      }
      default:
        return {};
    }
  }

  int fd_;
  std::string buffer_{};
};

struct step {
  const char* what;
  std::string sent;
  const char* answered;
};
struct transcript {
  const char* driver;
  bool asks_for_tls;
  std::map<std::string, std::string> parameters;  // beside user and database
  std::vector<step> steps;                        // after them it listens to `jobs`
};

// Parse to Sync at once, as most do it.
std::string extended(const std::string& sql, const std::string& name = {}, std::uint32_t format = 0) {
  return parse(name, sql) + describe('S', name) + bind_to("", name, format) + execute("") + sync();
}

const char* const postgrex_types =
    "SELECT t.oid, t.typname, t.typsend, t.typreceive, t.typoutput, t.typinput, coalesce(d.typelem, "
    "t.typelem), "
    "coalesce(r.rngsubtype, 0), ARRAY (SELECT a.atttypid FROM pg_attribute AS a WHERE a.attrelid = t.typrelid "
    "AND a.attnum > 0 ORDER BY a.attnum)\nFROM pg_type AS t\nLEFT JOIN pg_type AS d ON t.typbasetype = "
    "d.oid\nLEFT JOIN pg_range AS r ON r.rngtypid = t.oid\n";

const char* const npgsql_types =
    "SELECT version();"
    "SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid\nFROM (\n -- a comment's "
    "end\n SELECT typ.oid, CASE WHEN proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype\n"
    " FROM (SELECT oid, typtype FROM pg_type AS typ) AS typ\n) AS t\nJOIN pg_namespace AS ns ON (ns.oid = "
    "typnamespace)\nWHERE (typtype IN ('b', 'r'))\nORDER BY CASE WHEN typtype = 'c' THEN 1 END;"
    "\n-- fields of composite types\nSELECT typ.oid, att.attname, att.atttypid\nFROM pg_type AS typ\nJOIN "
    "pg_attribute AS att ON (att.attrelid = typ.typrelid)\nORDER BY typ.oid, att.attnum;"
    "\n-- enums\nSELECT typ.oid, enumlabel\nFROM pg_enum\nJOIN pg_type AS typ ON typ.oid = enumtypid\nORDER BY "
    "oid, enumsortorder;";

const char* const answered_extended = "1 t n 2 C:LISTEN Z:I";

std::vector<transcript> transcripts() {
  return {
      {"Postgrex.Notifications, Oban",
       false,
       {},
       {{"asks whether the server may write", query("show transaction_read_only"), "T:1 D:1 C:SHOW Z:I"},
        {"loads types", query(postgrex_types), "T:9 C:SELECT_0 Z:I"},
        {"listens", query("LISTEN \"jobs\""), "C:LISTEN Z:I"},
        {"listens again, to all of its channels",
         query("DO $$BEGIN LISTEN \"public.oban_insert\";\nLISTEN \"jobs\"; END$$"), "C:DO Z:I"},
        {"no longer listens to some", query("DO $$BEGIN UNLISTEN \"public.oban_insert\"; END$$"), "C:DO Z:I"},
        {"pings", sync(), "Z:I"}}},
      {"Npgsql",
       true,
       {{"client_encoding", "UTF8"}},
       {{"loads types", query(npgsql_types),
         "T:1 D:1 C:SELECT_1 T:6 C:SELECT_0 T:3 C:SELECT_0 T:2 C:SELECT_0 Z:I"},
        {"listens", parse("", "LISTEN jobs") + bind_to("", "", 1) + describe('P', "") + execute("") + sync(),
         "1 2 n C:LISTEN Z:I"},
        {"keeps alive", sync(), "Z:I"},
        {"resets a pooled connection", query("DISCARD ALL"), "C:DISCARD_ALL Z:I"},
        {"resets it where statements are prepared",
         query("CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP"),
         "C:CLOSE_CURSOR_ALL C:UNLISTEN T:1 D:1 C:SELECT_1 C:DISCARD_SEQUENCES C:DISCARD_TEMP Z:I"},
        {"listens", query("LISTEN jobs"), "C:LISTEN Z:I"}}},
      {"sqlx",
       true,
       {{"DateStyle", "ISO, MDY"},
        {"client_encoding", "UTF8"},
        {"TimeZone", "UTC"},
        {"extra_float_digits", "2"}},
       {{"pings", sync(), "Z:I"},
        {"listens", query("LISTEN \"jobs\""), "C:LISTEN Z:I"},
        {"listens again, to all of its channels", query("LISTEN \"jobs\";LISTEN \"channel.1\";"),
         "C:LISTEN C:LISTEN Z:I"},
        {"gives its connection back", query("UNLISTEN *"), "C:UNLISTEN Z:I"},
        {"listens", query("LISTEN \"jobs\""), "C:LISTEN Z:I"}}},
      {"tokio-postgres",
       true,
       {{"client_encoding", "UTF8"}, {"application_name", "job"}},
       {{"listens in a batch", query("LISTEN jobs; LISTEN other;"), "C:LISTEN C:LISTEN Z:I"},
        {"checks its connection", query(""), "I Z:I"},
        {"prepares", parse("s0", "LISTEN jobs") + describe('S', "s0") + sync(), "1 t n Z:I"},
        {"executes", bind_to("", "s0", 1) + execute("") + sync(), "2 C:LISTEN Z:I"},
        {"drops a statement", close_of('S', "s0") + sync(), "3 Z:I"}}},
      {"r2dbc-postgresql",
       false,
       {{"client_encoding", "utf8"},
        {"DateStyle", "ISO"},
        {"extra_float_digits", "2"},
        {"TimeZone", "Europe/Paris"},
        {"application_name", "r2dbc-postgresql"}},
       {{"asks for the isolation level", query("SHOW TRANSACTION ISOLATION LEVEL"), "T:1 D:1 C:SHOW Z:I"},
        {"asks for types of extensions",
         query("SELECT oid, * FROM pg_catalog.pg_type WHERE typname IN ('hstore','geometry','vector')"),
         "T:2 C:SELECT_0 Z:I"},
        {"asks for enums",
         query(
             "SELECT pg_type.oid, pg_type.*   FROM pg_catalog.pg_type   LEFT   JOIN (select ns.oid as nspoid "
             "from pg_namespace as ns) AS sp ON sp.nspoid = typnamespace  WHERE typname IN ('a')  ORDER BY "
             "sp.r, pg_type.oid DESC LIMIT 1;"),
         "T:2 C:SELECT_0 Z:I"},
        {"listens", query("LISTEN jobs"), "C:LISTEN Z:I"},
        {"validates", query("SELECT 1"), "T:1 D:1 C:SELECT_1 Z:I"}}},
      {"pgx 5, River",
       false,
       {{"application_name", "river"}},
       {{"asks whether the server may write", query("show transaction_read_only"), "T:1 D:1 C:SHOW Z:I"},
        {"pings", query("-- ping"), "I Z:I"},
        {"asks for its schema",
         parse("stmtcache_1", "SELECT coalesce(current_schema(), '')") + describe('S', "stmtcache_1") +
             sync(),
         "1 t T:1 Z:I"},
        {"and gets it", bind_to("", "stmtcache_1", 0) + describe('P', "") + execute("") + sync(),
         "2 T:1 D:1 C:SELECT_1 Z:I"},
        {"listens, without arguments by a simple query", query("LISTEN \"jobs\""), "C:LISTEN Z:I"},
        {"forgets statements", query("deallocate all"), "C:DEALLOCATE_ALL Z:I"}}},
      {"pgjdbc",
       false,
       {{"client_encoding", "UTF8"}, {"DateStyle", "ISO"}, {"TimeZone", "UTC"}, {"extra_float_digits", "2"}},
       {{"sets", parse("", "SET extra_float_digits = 3") + bind_to("", "") + execute("", 1) + sync(),
         "1 2 C:SET Z:I"},
        {"names itself",
         parse("", "SET application_name = 'PostgreSQL JDBC Driver'") + bind_to("", "") + execute("", 1) +
             sync(),
         "1 2 C:SET S Z:I"},
        {"listens", parse("", "LISTEN jobs") + bind_to("", "") + describe('P', "") + execute("", 1) + sync(),
         "1 2 n C:LISTEN Z:I"},
        {"is valid", parse("", "") + bind_to("", "") + execute("", 1) + sync(), "1 2 I Z:I"}}},
      {"asyncpg, Vert.x: a statement is described before it is bound",
       false,
       {{"client_encoding", "'utf-8'"}},
       {{"prepares", parse("__asyncpg_1__", "LISTEN jobs") + describe('S', "__asyncpg_1__") + flush(),
         "1 t n"},
        {"executes", bind_to("", "__asyncpg_1__", 1) + execute("") + sync(), "2 C:LISTEN Z:I"},
        {"resets", query("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"),
         "T:1 D:1 C:SELECT_1 C:CLOSE_CURSOR_ALL C:UNLISTEN C:RESET Z:I"},
        {"listens", extended("LISTEN jobs", "a"), answered_extended}}},
      {"postgresql-simple, hasql: libpq without SSL",
       false,
       {{"client_encoding", "UTF8"}},
       {{"sets",
         query("SET standard_conforming_strings TO on;SET datestyle TO ISO;SET client_encoding TO UTF8;SET "
               "client_min_messages TO WARNING"),
         "C:SET C:SET C:SET C:SET Z:I"},
        {"listens", query("LISTEN \"jobs\""), "C:LISTEN Z:I"}}},
      {"a query that is none of the door's: refused, and the connection goes on",
       false,
       {},
       {{"a table", query("SELECT * FROM oban_jobs"), "E:0A000 Z:I"},
        {"the same by a prepared statement", extended("SELECT * FROM river_job"), "E:0A000 Z:I"},
        {"a subquery", query("SELECT a FROM (SELECT a FROM jobs) AS t"), "E:0A000 Z:I"},
        {"a type's join", query("SELECT a FROM jobs JOIN pg_type ON true"), "E:0A000 Z:I"},
        {"listens", query("LISTEN jobs"), "C:LISTEN Z:I"}}},
  };
}

}  // namespace

TEST_CASE("P2 to P17: drivers that cannot be installed here, by what their sources say that they send") {
  rig r({.arguments = {"--front-door"}});
  const auto path = r.hub().socket().substr(0, r.hub().socket().rfind('/')) + "/.s.PGSQL.5432";
  for (const auto& t : transcripts()) {
    INFO(t.driver);
    wire w(path);
    if (t.asks_for_tls) {
      w.send(ssl_request());
      CHECK(w.byte() == 'N');
    }
    auto parameters = t.parameters;
    parameters["user"] = "app";
    parameters["database"] = r.database();
    w.send(startup(parameters));
    CHECK(w.let_in() == "R K Z:I");
    for (const auto& s : t.steps) {
      INFO(s.what);
      w.send(s.sent);
      CHECK(w.answers(s.answered) == s.answered);
    }
    r.notify("jobs", t.driver[0] == 'N' ? "n" : "x");
    CHECK(w.answers("A") == (t.driver[0] == 'N' ? "A:jobs=n" : "A:jobs=x"));
    w.send(message('X'));
  }
}
