#include <libpq-fe.h>

#include <catch2/catch.hpp>
#include <iostream>
#include <memory>

#include "integration/rig.hpp"

// The front door's SQL beside PostgreSQL's own: each statement goes to both.
using namespace pgwake::test;

namespace {

struct free_result {
  void operator()(PGresult* r) const { PQclear(r); }
};

// What a statement came to: its tag or SQLSTATE, its columns and their types, the transaction's state; with
// `values` its rows, too.
std::string outcome(connection& c, const std::string& sql, bool values) {
  const std::unique_ptr<PGresult, free_result> result(PQexec(c.raw(), sql.c_str()));
  std::string out;
  const auto* r = result.get();
  if (const char* state = PQresultErrorField(r, PG_DIAG_SQLSTATE))
    out = std::string("error ") + state;
  else
    out = PQresultStatus(r) == PGRES_EMPTY_QUERY ? "empty" : PQcmdStatus(result.get());
  for (int i = 0; i < PQnfields(r); ++i) {
    out += std::string(" ") + PQfname(r, i) + ":" + std::to_string(PQftype(r, i));
    for (int row = 0; values && row < PQntuples(r); ++row)
      out += std::string("=") + (PQgetisnull(r, row, i) != 0 ? "NULL" : PQgetvalue(r, row, i));
  }
  out += " state " + std::to_string(PQtransactionStatus(c.raw()));
  return out;
}

// As PostgreSQL, values included.
const std::vector<std::string> same{
    "LISTEN a",
    "listen A",
    "LISTEN \"A b\"",
    "LISTEN \"say \"\"x\"\"\"",
    "LISTEN U&\"\\0061bc\"",
    "LISTEN é",
    "LISTEN name",
    "LISTEN a1$",
    "LISTEN _",
    "LISTEN a;",
    ";;LISTEN a;;",
    "LISTEN a; LISTEN b",
    "/* x */ LISTEN a -- y",
    "LISTEN /* /* nested */ */ a",
    "LISTEN aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "LISTEN text",
    "LISTEN value",
    "LISTEN year",
    "LISTEN abort",
    "LISTEN listen",
    "LISTEN begin",
    "LISTEN update",
    "LISTEN",
    "LISTEN 'a'",
    "LISTEN a b",
    "LISTEN a, b",
    "LISTEN a.b",
    "LISTEN 1",
    "LISTEN \"\"",
    "LISTEN *",
    "LISTEN table",
    "LISTEN select",
    "LISTEN user",
    "LISTEN all",
    "LISTEN left",
    "LISTEN with",
    "LISTEN null",
    "LISTEN true",
    "LISTEN \"unfinished",
    "LISTEN /* unfinished",
    "LISTEN $1",
    "LISTEN a LISTEN b",
    "(LISTEN a)",
    "UNLISTEN a",
    "UNLISTEN *",
    "UNLISTEN never_listened",
    "UNLISTEN \"A b\"",
    "UNLISTEN",
    "UNLISTEN 'a'",
    "UNLISTEN all",
    "UNLISTEN a b",
    "UNLISTEN *;",
    "UNLISTEN * x",
    "UNLISTEN a, b",
    "DO $$BEGIN LISTEN a; LISTEN \"B\"; END$$",
    "DO $x$BEGIN LISTEN a; END$x$",
    "DO 'BEGIN LISTEN a; END'",
    "DO $$BEGIN UNLISTEN a; UNLISTEN \"B\"; END$$",
    "DO",
    "BEGIN",
    "BEGIN WORK",
    "BEGIN TRANSACTION",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "BEGIN READ ONLY",
    "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "BEGIN ISOLATION LEVEL READ UNCOMMITTED",
    "BEGIN NOT DEFERRABLE",
    "BEGIN DEFERRABLE",
    "START TRANSACTION",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
    "BEGIN nonsense",
    "BEGIN ISOLATION LEVEL",
    "BEGIN READ",
    "BEGIN ,",
    "BEGIN; BEGIN",
    "BEGIN; LISTEN a",
    "COMMIT",
    "COMMIT WORK",
    "COMMIT TRANSACTION",
    "COMMIT AND NO CHAIN",
    "END",
    "END WORK",
    "COMMIT nonsense",
    "ROLLBACK",
    "ROLLBACK WORK",
    "ROLLBACK TRANSACTION",
    "ROLLBACK AND NO CHAIN",
    "ABORT",
    "ABORT WORK",
    "BEGIN; COMMIT",
    "BEGIN; END",
    "BEGIN; LISTEN a; COMMIT",
    "BEGIN; LISTEN a; ROLLBACK",
    "BEGIN; UNLISTEN *; COMMIT",
    "BEGIN; ABORT",
    "BEGIN; LISTEN table; COMMIT",
    "START TRANSACTION; COMMIT",
    "SET application_name = 'x'",
    "SET application_name TO x",
    "SET SESSION application_name = 'x'",
    "SET LOCAL application_name = 'x'",
    "SET application_name = DEFAULT",
    "SET application_name TO DEFAULT",
    "SET application_name x",
    "SET application_name =",
    "SET =",
    "SET",
    "SET DateStyle = ISO",
    "SET DateStyle = 'ISO, DMY'",
    "SET datestyle TO German",
    "SET client_min_messages TO warning",
    "SET standard_conforming_strings = on",
    "SET standard_conforming_strings TO off",
    "SET client_encoding = 'UTF8'",
    "SET client_encoding TO 'utf-8'",
    "SET NAMES 'UTF8'",
    "SET TIME ZONE 'UTC'",
    "SET TIME ZONE LOCAL",
    "SET TIME ZONE DEFAULT",
    "SET timezone = 'UTC'",
    "SET statement_timeout = 0",
    "SET statement_timeout TO 5000",
    "SET statement_timeout = '5s'",
    "SET extra_float_digits = 3",
    "SET bytea_output = 'hex'",
    "SET my.own = 'x'",
    "SET my.own TO 1",
    "SET no_such_setting = 1",
    "SET server_version = '1'",
    "SET intervalstyle = 'iso_8601'",
    "SET search_path TO public",
    "SET search_path = public, pg_catalog",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION",
    "BEGIN; SET LOCAL statement_timeout = 5; COMMIT",
    "RESET application_name",
    "RESET ALL",
    "RESET no_such_setting",
    "RESET",
    "RESET TIME ZONE",
    "RESET statement_timeout",
    "SHOW standard_conforming_strings",
    "SHOW client_encoding",
    "SHOW transaction_read_only",
    "SHOW TRANSACTION ISOLATION LEVEL",
    "SHOW transaction_isolation",
    "SHOW server_encoding",
    "SHOW integer_datetimes",
    "SHOW server_version_num",
    "SHOW default_transaction_read_only",
    "SHOW statement_timeout",
    "SHOW no_such_setting",
    "SHOW",
    "SHOW a b",
    "SHOW max_identifier_length",
    "SHOW in_hot_standby",
    "SHOW DateStyle",
    "SET DateStyle = ISO; SHOW DateStyle",
    "SET datestyle TO German; SHOW DateStyle",
    "SET datestyle TO German, YMD; SHOW DateStyle",
    "SET datestyle TO dmy; SHOW DateStyle",
    "SET datestyle TO 'sql, european'; SHOW DateStyle",
    "SET datestyle TO nonsense",
    "SHOW datestyle",
    "DISCARD ALL",
    "DISCARD PLANS",
    "DISCARD SEQUENCES",
    "DISCARD TEMP",
    "DISCARD TEMPORARY",
    "DISCARD",
    "DISCARD nonsense",
    "BEGIN; DISCARD ALL",
    "DEALLOCATE ALL",
    "DEALLOCATE PREPARE ALL",
    "DEALLOCATE none",
    "DEALLOCATE",
    "CLOSE ALL",
    "",
    ";",
    "-- a comment",
    "/* a comment */",
    "  \n\t ",
    ";;;",
    "SELECT 1",
    "SELECT 1;",
    "SELECT 'x'",
    "SELECT NULL",
    "SELECT true",
    "SELECT false, true",
    "SELECT 1, 'a', NULL",
    "SELECT -1",
    "SELECT 1 AS one",
    "SELECT 1 one",
    "SELECT 1 AS \"One\"",
    "SELECT 1::int8",
    "SELECT '1'::int4",
    "SELECT 1::text",
    "SELECT 'x'::text",
    "SELECT (1)",
    "SELECT E'a\\nb'",
    "SELECT 'it''s'",
    "SELECT $$x$$",
    "SELECT 1.5",
    "SELECT 3000000000",
    "SELECT U&'\\0061'",
    "SELECT 'a'\n'b'",
    "SELECT",
    "SELECT 1,",
    "SELECT (1",
    "SELECT 'x",
    "SELECT coalesce(NULL, 'x')",
    "SELECT coalesce(NULL, NULL, 1)",
    "SELECT pg_advisory_unlock_all()",
    "SELECT pg_is_in_recovery()",
    "SELECT current_schema()",
    "SELECT current_schema",
    "SELECT pg_catalog.current_schema()",
    "SELECT current_setting('standard_conforming_strings')",
    "SELECT current_setting('no_such_setting')",
    "SELECT current_setting('no_such_setting', true)",
    "SELECT set_config('my.own', 'x', false)",
    "SELECT set_config('application_name', 'x', true)",
    "SELECT 1; SELECT 2",
    "SELECT coalesce(current_schema(), '')",
    "SELECT pg_listening_channels()",
    "SELECT * FROM pg_listening_channels()",
    "LISTEN a; SELECT pg_listening_channels()",
    "LISTEN a; LISTEN a; SELECT * FROM pg_listening_channels()",
    "SELECT EXISTS (SELECT 1 FROM pg_listening_channels() AS c WHERE c = 'a')",
    "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;",
    "$",
    "%",
    "nonsense '"};

// As PostgreSQL, but for the values.
const std::vector<std::string> alike{
    "SELECT pg_backend_pid()",    "SELECT version()",      "SELECT current_database()",
    "SELECT current_user",        "SELECT session_user",   "SELECT user",
    "SHOW server_version",        "SHOW application_name", "SHOW TimeZone",
    "SHOW session_authorization", "SHOW search_path",      "SELECT current_catalog"};

// Not for this socket.
const std::vector<std::string> refused{"NOTIFY a",
                                       "NOTIFY a, 'x'",
                                       "SELECT pg_notify('a', 'x')",
                                       "SELECT * FROM pg_class",
                                       "SELECT now()",
                                       "SELECT 1 + 1",
                                       "SELECT count(*) FROM pg_stat_activity",
                                       "SELECT pg_sleep(1)",
                                       "INSERT INTO t VALUES (1)",
                                       "UPDATE t SET a = 1",
                                       "DELETE FROM t",
                                       "CREATE TABLE t (a int)",
                                       "DROP TABLE t",
                                       "ALTER TABLE t ADD b int",
                                       "TRUNCATE t",
                                       "COPY t TO STDOUT",
                                       "VACUUM",
                                       "ANALYZE",
                                       "EXPLAIN SELECT 1",
                                       "PREPARE p AS SELECT 1",
                                       "EXECUTE p",
                                       "DECLARE c CURSOR FOR SELECT 1",
                                       "FETCH ALL FROM c",
                                       "LOCK TABLE t",
                                       "SAVEPOINT s",
                                       "RELEASE s",
                                       "ROLLBACK TO s",
                                       "PREPARE TRANSACTION 'x'",
                                       "COMMIT PREPARED 'x'",
                                       "COMMIT AND CHAIN",
                                       "SET ROLE x",
                                       "SET SESSION AUTHORIZATION x",
                                       "SET CONSTRAINTS ALL DEFERRED",
                                       "GRANT ALL ON t TO x",
                                       "WITH a AS (SELECT 1) SELECT * FROM a",
                                       "VALUES (1)",
                                       "TABLE t",
                                       "CALL p()",
                                       "CHECKPOINT",
                                       "DO $$BEGIN PERFORM 1; END$$",
                                       "LISTEN a; SELECT * FROM t",
                                       "SELECT pg_advisory_lock(1)",
                                       "LOAD 'x'",
                                       "REINDEX TABLE t",
                                       "SELECT 1 FROM t",
                                       "SELECT 1 WHERE true",
                                       "SELECT 1 UNION SELECT 2",
                                       "SELECT a",
                                       "SECURITY LABEL ON TABLE t IS 'x'"};

}  // namespace

TEST_CASE("P9 to P17: what the front door recognises it answers as PostgreSQL does; the rest is 0A000") {
  rig r({.arguments = {"--front-door"}});
  const auto folder = r.hub().socket().substr(0, r.hub().socket().rfind('/'));
  connection theirs(r.pg().conninfo(r.database()) + " options='-c timezone=Etc/UTC'");
  connection ours("host=" + folder +
                  " port=5432 user=postgres application_name=pgwake-test dbname=" + r.database());
  const auto clean = [&] {
    for (auto* c : {&theirs, &ours}) {
      if (PQtransactionStatus(c->raw()) != PQTRANS_IDLE) c->exec("ROLLBACK");
      c->exec("DISCARD ALL");
    }
  };
  const auto compare = [&](const std::vector<std::string>& statements, bool values) {
    for (const auto& sql : statements) {
      clean();
      INFO(sql);
      CHECK(outcome(ours, sql, values) == outcome(theirs, sql, values));
    }
  };
  compare(same, true);
  compare(alike, false);
  for (const auto& sql : refused) {
    clean();
    INFO(sql);
    CHECK(outcome(ours, sql, false) == "error 0A000 state " + std::to_string(PQTRANS_IDLE));
  }
  std::cerr << "statements: " << same.size() + alike.size() + refused.size() << "\n";
}
