#include "common/redact.hpp"

#include <catch2/catch.hpp>

#include "support/malformed_conninfo.hpp"

using pgwake::has_password;
using pgwake::has_stray_password;
using pgwake::hide_in_value;
using pgwake::hide_password;
using pgwake::hide_secrets_in;

namespace {

struct row {
  std::string_view conninfo;
  std::string_view shown;
};

std::string percent_encoded(unsigned char byte) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  return {'%', hex[byte >> 4], hex[byte & 15]};
}

constexpr std::string_view reserved = ":/?#[]@!$&'()*+,;=% \"\\<>^`{|}";

}  // namespace

TEST_CASE("case 38: a URI's password is hidden, the rest stays") {
  const row each = GENERATE(
      row{"postgresql://u:pw@h/db", "postgresql://u:***@h/db"},
      row{"postgres://u:pw@h", "postgres://u:***@h"},
      row{"postgresql://u:pw@h1:1,h2:2/db?target_session_attrs=any",
          "postgresql://u:***@h1:1,h2:2/db?target_session_attrs=any"},
      row{"postgresql://u:pw@[::1]:5432/db", "postgresql://u:***@[::1]:5432/db"},
      row{"postgresql://:pw@/db?host=/run/postgresql", "postgresql://:***@/db?host=/run/postgresql"},
      row{"postgresql://u:a:b@h", "postgresql://u:***@h"},
      row{"postgresql:///db?user=u&password=pw&host=/run", "postgresql:///db?user=u&password=***&host=/run"},
      row{"postgresql://h/db?sslpassword=pw&sslkey=/k", "postgresql://h/db?sslpassword=***&sslkey=/k"},
      row{"postgresql://h/db?p%61ssword=pw", "postgresql://h/db?p%61ssword=***"},
      row{"postgresql://h/db?PASSWORD=pw", "postgresql://h/db?PASSWORD=***"},
      row{"postgresql://u:one@h/db?password=two", "postgresql://u:***@h/db?password=***"},
      row{"postgresql://h/db?password=a=b", "postgresql://h/db?password=***"});
  CAPTURE(each.conninfo);
  CHECK(hide_password(each.conninfo) == each.shown);
  CHECK(has_password(each.conninfo));
}

TEST_CASE("case 13: a percent-encoded password with any reserved character is hidden") {
  for (const char c : reserved) {
    const std::string encoded = "sec" + percent_encoded(static_cast<unsigned char>(c)) + "ret";
    CAPTURE(c);
    CHECK(hide_password("postgresql://u:" + encoded + "@h:1/db?sslmode=require") ==
          "postgresql://u:***@h:1/db?sslmode=require");
    CHECK(hide_password("postgresql://h/db?password=" + encoded + "&user=u") ==
          "postgresql://h/db?password=***&user=u");
  }
}

TEST_CASE("case 38: a password that should have been encoded is hidden all the same") {
  for (const char c : reserved) {
    for (const std::string& password : {std::string("sec") + c + "ret", std::string("sec") + c + "/?ret",
                                        std::string("sec@") + c + "ret", std::string("/") + c + "secret"}) {
      const std::string uri = "postgresql://u:" + password + "@h/db";
      CAPTURE(uri);
      const std::string shown = hide_password(uri);
      CHECK(shown.find("sec") == std::string::npos);
      CHECK(shown.find("ret") == std::string::npos);
      CHECK(shown.substr(0, 18) == "postgresql://u:***");
    }
  }
  CHECK(hide_password("postgresql://me@server:pw@server.example/db") ==
        "postgresql://me@server:***@server.example/db");
}

TEST_CASE("case 38: what was meant for a URI and is none is hidden as a whole") {
  for (const char* uri :
       {"postgress://u:hush@h/d", "POSTGRES://u:hush@h/d", "postgresql//u:hush@h/d", "postgresql:/u:hush@h/d",
        "u:hush@h/d", "://u:hush@h", "postgres:u:hush@h/d?sslmode=require", "postgress://u:hu=sh@h/d hush",
        "postgress://h/d?password=hush", "postgresql:/h/d?password=hush"}) {
    CAPTURE(uri);
    CHECK(hide_password(uri) == "***");
    CHECK(hide_password(std::string(" ") + uri) == " ***");
    CHECK(has_password(uri));
  }
  CHECK(hide_password("\tpostgres://u:hush@h/d") == "\t***");
  CHECK(hide_password("user=u dbname=postgress://u:hush@h/d") == "user=u dbname=***");
  CHECK(hide_password("user=u 'postgres://u:hush@h/d'") == "user=u ***");
  for (const char* plain : {"/run/pgwake/main/pgwake.sock", "a:b", "user=me@example host=h", "dbname=a://b"})
    CHECK(hide_password(plain) == plain);
}

TEST_CASE("redact: a connection string without password stays as it is") {
  const std::string_view each = GENERATE(
      "", "shop", "postgresql://", "postgresql:///", "postgresql://h", "postgresql://h:5432/db",
      "postgresql://u@h/db", "postgresql://[::1]:5432/db", "postgresql://h1:1,h2:2/db?user=u",
      "postgresql://u:@h/db", "postgresql://h:5432/db?user=me@example",
      "postgresql://u@h/db?passfile=/etc/password.txt", "require_auth=password user=u", "host=h dbname=d",
      "passfile=/etc/pw user=u", "host = h  user = 'a b'", "password=", "password='' user=u",
      "postgresql://h/db?password=&user=u", "options='-c x=1' service=s");
  CAPTURE(each);
  CHECK(hide_password(each) == each);
  CHECK(!has_password(each));
}

TEST_CASE("case 38: a key=value password is hidden: quotes, spaces, escapes") {
  const row each = GENERATE(
      row{"password=pw", "password=***"}, row{"host=h password=pw user=u", "host=h password=*** user=u"},
      row{"host=h password = pw user=u", "host=h password = *** user=u"},
      row{"password='p w' user=u", "password='***' user=u"},
      row{R"(password='p\'w x' user=u)", "password='***' user=u"},
      row{R"(password=p\ w user=u)", "password=*** user=u"},
      row{R"(password='p\\' user=u)", "password='***' user=u"},
      row{"password='p=w host=x' user=u", "password='***' user=u"},
      row{"sslpassword=one\tpassword=two\nuser=u", "sslpassword=***\tpassword=***\nuser=u"},
      row{"Password=pw", "Password=***"}, row{"password=p'w user=u", "password=*** user=u"},
      row{"password=p@w:/x user=u", "password=*** user=u"},
      row{"oauth_client_secret=x", "oauth_client_secret=***"},
      row{"dbname=postgresql://u:pw@h/db user=u", "dbname=postgresql://u:***@h/db user=u"},
      // libpq refuses these; nothing of the password may show even so.
      row{"password='unclosed host=h", "password='***"},
      row{"password=my secret word host=h", "password=*** *** *** host=h"},
      row{"password=pw\\", "password=***"}, row{"password='pw\\", "password='***"});
  CAPTURE(each.conninfo);
  CHECK(hide_password(each.conninfo) == each.shown);
  CHECK(has_password(each.conninfo));
}

TEST_CASE("redact: any key=value password is hidden, whatever it is made of") {
  for (const char c : reserved) {
    std::string quoted = std::string("sec") + (c == '\'' || c == '\\' ? "\\" : "") + c + "ret";
    CAPTURE(quoted);
    CHECK(hide_password("user=u password='" + quoted + "' host=h") == "user=u password='***' host=h");
  }
}

TEST_CASE("case 38: an error message about a connection string shows no part of its password") {
  const std::string uri = "postgresql://u:hush/secret@host/db";
  CHECK(hide_secrets_in("invalid integer value \"hush\" for connection option \"port\"", uri) ==
        "invalid integer value \"***\" for connection option \"port\"");
  CHECK(hide_secrets_in("could not translate host name \"secret@host\"", uri) ==
        "could not translate host name \"***@host\"");
  CHECK(hide_secrets_in("tried pa ss", "postgresql://u:pa%20ss@h") == "tried ***");
  CHECK(hide_secrets_in("tried p'w d", R"(password='p\'w d')") == "tried ***");
  CHECK(hide_secrets_in("connection refused", uri) == "connection refused");
  CHECK(hide_secrets_in("*** stars", "password=***") == "*** stars");
}

TEST_CASE("redact: no bytes make it read outside its text") {
  for (std::string_view text : {"password", "password=", "password='", "password=\\", "postgresql://:",
                                "postgres://@", "postgresql://u:%", "postgresql://u:%4@h", "postgresql://h?",
                                "postgresql://h?=&&=", "postgresql://?password", "=", "= =", "'", "\\"}) {
    for (; !text.empty(); text.remove_suffix(1)) {
      CHECK(hide_password(text).size() <= text.size() + 3 * text.size());
      CHECK(hide_secrets_in(text, text).size() <= 4 * text.size());
    }
  }
}

TEST_CASE("secrets: whatever follows a word that ends in password is hidden, whatever separates the pairs") {
  const row each = GENERATE(
      row{"host=h;port=1;password=X", "host=h;***"}, row{"host=h&port=1&password=X", "host=h&***"},
      row{"host=h,port=1,password=X", "host=h,port=1,password=***"},
      row{"host=h\tport=1\tpassword=X", "host=h\tport=1\tpassword=***"},
      row{"host=h;port=1;password = X", "host=h;*** = ***"},
      row{"host=h port=1,SSLPassword=X", "host=h port=1,SSLPassword=***"},
      row{"PGPASSWORD=X", "PGPASSWORD=***"}, row{"pasword=X", "pasword=***"},
      row{"password: X host=h", "***"}, row{"password=a b=c host=h", "password=*** ***=*** host=h"},
      row{"postgresql://h/db&password=X", "postgresql://h/db&***"},
      row{"postgresql://h/db;password=X", "postgresql://h/db;***"},
      row{"postgresql://u@h:5432:X/db", "postgresql://u@h:***"},
      row{"postgresql://h/db?sslmode=require?password=X", "postgresql://h/db?sslmode=require?password=***"},
      row{"postgresql://h/db?user=u;password=X", "postgresql://h/db?user=u;***"},
      row{"postgresql://u;X@h/db", "postgresql://***@h/db"},
      row{"postgresql://u/X@h/db", "postgresql://***@h/db"},
      row{"postgresql://h/db?password=a&b=c&user=u", "postgresql://h/db?password=***&***&user=u"},
      row{"postgresql://h%3Bpassword%3DX/db", "postgresql://***"});
  CAPTURE(each.conninfo);
  CHECK(hide_password(each.conninfo) == each.shown);
  CHECK(has_password(each.conninfo));
}

TEST_CASE("secrets: what stands between : and @ is hidden in any value") {
  CHECK(hide_password("host=h user=u:X@h2") == "host=h user=u:***@h2");
  CHECK(hide_password("postgresql://u@h/db?passfile=/etc/p:w@x") ==
        "postgresql://u@h/db?passfile=/etc/p:***@x");
  CHECK(hide_in_value("postgresql://u:X@h/db") == "postgresql://u:***@h/db");
  CHECK(hide_in_value("h:5432") == "h:5432");
  CHECK(hide_in_value("me@h:5432") == "me@h:5432");
}

TEST_CASE("secrets: a value that holds an assignment to password is told") {
  for (const char* value :
       {"h;port=1;password=X", "h&Password = X", "h;password", "db?sslpassword:X", "\"password\"=X"}) {
    CAPTURE(value);
    CHECK(has_stray_password(value) == (std::string_view(value) != "h;password"));
  }
  for (const char* value : {"h", "", "password", "password_vault", "/etc/password.txt", "passwords=1"})
    CHECK_FALSE(has_stray_password(value));
}

TEST_CASE("secrets: no malformed connection string shows its password, nor does a message about one") {
  pgwake::test::malformed_conninfo strings(GENERATE(1U, 2U, 3U));
  for (int i = 0; i < 4'000; ++i) {
    const auto conninfo = strings.next();
    CAPTURE(conninfo);
    const auto shown = hide_password(conninfo);
    const auto value = hide_in_value(conninfo);
    const auto message =
        hide_secrets_in("could not translate host name \"" + conninfo + "\" to address", conninfo);
    if (pgwake::test::shows_password(shown)) FAIL("shown: " + shown);
    if (pgwake::test::shows_password(value)) FAIL("as a value: " + value);
    if (pgwake::test::shows_password(message)) FAIL("in a message: " + message);
  }
}

TEST_CASE("secrets: a message about a variable of the environment shows no password either") {
  CHECK(hide_secrets_in("could not translate host name \"postgresql://u:X@h/db\" to address: no", "") ==
        "could not translate host name \"postgresql://***@h/db\" to address: no");
  CHECK(hide_secrets_in("invalid port number: \"1;password=X\"", "") ==
        "invalid port number: \"1;password=***");
  CHECK(hide_secrets_in("invalid port number: \"u:X@h\"", "") == "invalid port number: \"u:***@h\"");
  const std::string_view plain =
      "connection to server at \"h\" (::1), port 5432 failed: FATAL:  password authentication "
      "failed for user \"me@corp\"";
  CHECK(hide_secrets_in(plain, "host=h") == plain);
}
