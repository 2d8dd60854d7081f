#include "daemon/door/statement.hpp"

#include <catch2/catch.hpp>

using namespace pgwaked::door;

namespace {

template <class Statement>
Statement only(std::string_view sql) {
  INFO(sql);
  const auto p = parse_sql(sql);
  INFO((p.error ? p.error->message : ""));
  REQUIRE(p.statements.size() == 1);
  const auto* s = std::get_if<Statement>(&p.statements[0]);
  REQUIRE(s != nullptr);
  return *s;
}

std::string refusal(std::string_view sql) {
  const auto p = parse_sql(sql);
  return p.error ? p.error->sqlstate : "";
}

}  // namespace

TEST_CASE("P11: names as the server reads them") {
  CHECK(only<listen>("LISTEN Orders").channel.text == "orders");
  CHECK(only<listen>("listen \"Orders\";").channel.text == "Orders");
  CHECK(only<listen>("LISTEN U&\"\\0061b\"").channel.text == "ab");
  CHECK(only<listen>("LISTEN name").channel.text == "name");
  CHECK(only<unlisten>("UNLISTEN \"a b\"").channel->text == "a b");
  CHECK(!only<unlisten>("UNLISTEN *").channel);
  for (const auto* sql : {"LISTEN", "LISTEN 'a'", "LISTEN a b", "LISTEN table", "LISTEN user", "LISTEN \"\"",
                          "LISTEN a.b", "LISTEN 1", "LISTEN left", "UNLISTEN", "LISTEN a, b", "LISTEN $1"}) {
    INFO(sql);
    CHECK(refusal(sql) == "42601");
  }
}

TEST_CASE("P11: a name is cut after 63 bytes, at a character's border") {
  const auto plain = only<listen>("LISTEN " + std::string(70, 'a')).channel;
  CHECK(plain.text == std::string(63, 'a'));
  CHECK(plain.cut_from == std::string(70, 'a'));
  std::string accents;
  for (int i = 0; i < 32; ++i) accents += "é";
  CHECK(only<listen>("LISTEN \"" + accents + "\"").channel.text == accents.substr(0, 62));
  CHECK(only<listen>("LISTEN " + std::string(63, 'a')).channel.cut_from.empty());
}

TEST_CASE("P9: several statements are taken together, or refused together") {
  const auto p = parse_sql("LISTEN \"a\";LISTEN \"b\";; -- end");
  REQUIRE(!p.error);
  CHECK(p.statements.size() == 2);
  CHECK(refusal("LISTEN a; SELECT * FROM orders") == "0A000");
  CHECK(refusal("SELECT * FROM orders; LISTEN table") == "42601");
  CHECK(parse_sql("").statements.empty());
  CHECK(parse_sql("; /* nothing */ ;").statements.empty());
}

TEST_CASE("door: a block of LISTENs, as Postgrex says it") {
  const auto block = only<listen_block>("DO $$BEGIN LISTEN \"a\"; LISTEN b; END$$");
  REQUIRE(block.channels.size() == 2);
  CHECK(block.channels[1].text == "b");
  CHECK_FALSE(block.ends_listening);
  CHECK(only<listen_block>("DO $$BEGIN END$$").channels.empty());
  CHECK(only<listen_block>("DO $$BEGIN UNLISTEN a; UNLISTEN b; END$$").ends_listening);
  CHECK(refusal("DO $$BEGIN LISTEN a; UNLISTEN b; END$$") == "0A000");
  for (const auto* sql :
       {"DO $$BEGIN PERFORM 1; END$$", "DO $$BEGIN LISTEN a END$$", "DO LANGUAGE plpgsql $$BEGIN END$$"}) {
    INFO(sql);
    CHECK(refusal(sql) == "0A000");
  }
}

TEST_CASE("P10: transactions and their modes") {
  CHECK(!only<begin>("BEGIN").start_transaction);
  CHECK(!only<begin>("begin transaction isolation level read committed, read only not deferrable")
             .start_transaction);
  CHECK(only<begin>("START TRANSACTION READ WRITE").start_transaction);
  only<commit>("COMMIT");
  only<commit>("END WORK");
  only<rollback>("ROLLBACK AND NO CHAIN");
  only<rollback>("ABORT");
  CHECK(refusal("BEGIN ISOLATION LEVEL chaos") == "42601");
  CHECK(refusal("COMMIT AND CHAIN") == "0A000");
  CHECK(refusal("ROLLBACK TO SAVEPOINT a") == "0A000");
  CHECK(refusal("START") == "0A000");
}

TEST_CASE("door: SET, RESET and SHOW") {
  const auto s = only<set_value>("SET SESSION \"DateStyle\" TO ISO, MDY");
  CHECK(s.name == "datestyle");
  CHECK(s.value == "iso, mdy");
  CHECK(only<set_value>("SET LOCAL a.b = 'x'").where == set_value::scope::local);
  CHECK(only<set_value>("SET client_min_messages TO warning").value == "warning");
  CHECK(only<set_value>("SET statement_timeout = -1").value == "-1");
  CHECK(!only<set_value>("SET timezone TO DEFAULT").value);
  CHECK(only<set_value>("SET TIME ZONE 'UTC'").name == "timezone");
  CHECK(only<set_value>("SET NAMES 'UTF8'").name == "client_encoding");
  only<set_characteristics>("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE");
  CHECK(!only<reset>("RESET ALL").name);
  CHECK(only<reset>("RESET TIME ZONE").name == "timezone");
  CHECK(only<show>("SHOW transaction_read_only").name == "transaction_read_only");
  CHECK(only<show>("SHOW TRANSACTION ISOLATION LEVEL").name == "transaction_isolation");
  CHECK(!only<show>("SHOW ALL").name);
  CHECK(refusal("SET ROLE admin") == "0A000");
  CHECK(refusal("SET x") == "42601");
}

TEST_CASE("door: what pools say at reset") {
  for (const auto* sql :
       {"DISCARD ALL", "DISCARD PLANS", "DEALLOCATE ALL", "DEALLOCATE PREPARE x", "CLOSE ALL",
        "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"}) {
    INFO(sql);
    const auto p = parse_sql(sql);
    INFO((p.error ? p.error->message : ""));
    CHECK(!p.error);
  }
}

TEST_CASE("P17: SELECTs of constants and of the session itself") {
  const auto s =
      only<select_values>("SELECT 1, 'a'::text AS b, NULL, -2, true, version() v, current_user, $1::int4");
  REQUIRE(s.columns.size() == 8);
  CHECK(s.columns[0].name == "?column?");
  CHECK(s.columns[0].value.what == expression::kind::integer);
  CHECK(s.columns[1].name == "b");
  CHECK(s.columns[1].value.cast == "text");
  CHECK(s.columns[3].value.text == "-2");
  CHECK(s.columns[4].name == "?column?");
  CHECK(s.columns[5].name == "v");
  CHECK(s.columns[6].value.text == "current_user");
  CHECK(s.columns[7].name == "int4");
  CHECK(parse_sql("SELECT $2, $1").parameters == 2);
  CHECK(only<select_values>("SELECT coalesce(current_schema(), '')").columns[0].name == "coalesce");
  CHECK(only<select_values>("SELECT pg_catalog.set_config('search_path', '', false)").columns[0].name ==
        "set_config");
  CHECK(only<select_values>("SELECT").columns.empty());
  CHECK(refusal("SELECT 1 FROM orders") == "0A000");
  CHECK(refusal("SELECT now()") == "0A000");
  CHECK(refusal("SELECT 1 +") == "0A000");
  CHECK(refusal("SELECT version(1)") == "42883");
}

TEST_CASE("P16: what the session listens to") {
  CHECK(only<select_channels>("SELECT pg_listening_channels()").column == "pg_listening_channels");
  CHECK(only<select_channels>("SELECT * FROM pg_catalog.pg_listening_channels() AS c").column == "c");
  const auto s = only<select_listens_to>(
      "SELECT EXISTS (SELECT 1 FROM pg_listening_channels() AS channel WHERE channel = $1) AS listening");
  CHECK(s.column == "listening");
  CHECK(s.channel.what == expression::kind::parameter);
  CHECK(only<select_listens_to>("SELECT EXISTS (SELECT 1 FROM pg_listening_channels() c(n) WHERE c.n = 'x')")
            .column == "exists");
}

TEST_CASE("door: whoever loads types gets none") {
  const auto s = only<select_nothing>(
      "SELECT t.oid, t.typname AS name, coalesce(a, b), t.typelem FROM pg_catalog.pg_type t LEFT JOIN "
      "pg_range r ON true");
  CHECK(s.columns == std::vector<std::string>{"oid", "name", "coalesce", "typelem"});
  // Npgsql's.
  CHECK(only<select_nothing>(
            "SELECT ns.nspname, t.oid FROM (SELECT oid FROM pg_type) AS t JOIN pg_namespace AS "
            "ns ON true")
            .columns == std::vector<std::string>{"nspname", "oid"});
  CHECK(only<select_nothing>("SELECT typ.oid, enumlabel FROM pg_enum JOIN pg_type AS typ ON true").columns ==
        std::vector<std::string>{"oid", "enumlabel"});
  CHECK(refusal("SELECT a FROM jobs JOIN pg_type ON true") == "0A000");
  CHECK(refusal("SELECT a FROM (SELECT a FROM jobs) AS t") == "0A000");
}

TEST_CASE("P15: NOTIFY is refused, with where to send it") {
  for (const auto* sql : {"NOTIFY a", "NOTIFY a, 'b'", "SELECT pg_notify('a', 'b')"}) {
    INFO(sql);
    const auto p = parse_sql(sql);
    REQUIRE(p.error);
    CHECK(p.error->sqlstate == "0A000");
    CHECK(p.error->hint.find("database itself") != std::string::npos);
  }
}

TEST_CASE("P20: a query that is nested without end is refused, and takes no stack") {
  CHECK(refusal("SELECT " + std::string(60'000, '(')) == "54001");
  std::string calls = "SELECT ";
  for (int i = 0; i < 7'000; ++i) calls += "coalesce(";
  CHECK(refusal(calls) == "54001");
  CHECK(refusal("SELECT " + std::string(50, '(') + "1" + std::string(50, ')')).empty());
  CHECK(refusal("SELECT $99999999999999999999999") == "42P02");
}
