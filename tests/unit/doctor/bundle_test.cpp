// What `pgwaked doctor --bundle` is made of: the archive's bytes, and what takes secrets out.
#include <catch2/catch.hpp>

#include <random>

#include "daemon/doctor/secret_filter.hpp"
#include "daemon/doctor/tar_archive.hpp"
#include "daemon/settings/toml.hpp"
#include "daemon/terminal/text.hpp"

using namespace pgwaked;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("bundle: a tar archive in the format ustar, padded to blocks, its checksum right") {
  const auto tar =
      tar_archive({{"a/b.txt", "hello"}, {"empty", ""}, {"full", std::string(512, 'x')}}, 1'700'000'000);
  CHECK(tar.size() == 512 * (1 + 1 + 1 + 1 + 1 + 2));
  CHECK(tar.substr(0, 8) == std::string("a/b.txt\0", 8));
  CHECK(tar.substr(100, 8) == std::string("0000600\0", 8));
  CHECK(tar.substr(124, 12) == std::string("00000000005\0", 12));
  CHECK(tar.substr(136, 12) == std::string("14524770400\0", 12));
  CHECK(tar.substr(257, 8) == std::string("ustar\00000", 8));
  CHECK(tar.substr(512, 6) == std::string("hello\0", 6));
  CHECK(tar.substr(tar.size() - 1024) == std::string(1024, '\0'));
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < 512; ++i)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(tar[i]);
  CHECK(std::stoul(tar.substr(148, 6), nullptr, 8) == sum);
}

TEST_CASE(
    "bundle: secrets of variables, connection strings and password files are known by where they stand") {
  secret_filter clean;
  clean.add_conninfo("postgresql://app:p%40ss+word@db/shop?sslpassword=of-the-key");
  clean.add_conninfo("host=db password='it\\'s one' user=app");
  clean.add_environment({{"PGPASSWORD", "abc"},
                         {"RAILS_MASTER_KEY", "0123456789abcdef"},
                         {"SOME_API_TOKEN", "tokentoken"},
                         {"USE_TOKEN", "true"},
                         {"PGPASSFILE", "/root/.pgpass"},
                         {"PGWAKE_METRICS_TOKEN_FILE", "/etc/pgwake/token"},
                         {"DATABASE_URL", "postgres://u:inurl@h/d"},
                         {"PATH", "/usr/bin"}});
  clean.add_passfile(
      "# db:5432:*:app:comment\ndb:5432:shop:app:from\\:file\r\n\\:\\:1:*:*:*:second\nbroken line\n");
  for (const char* secret :
       {"p%40ss+word", "p@ss+word", "of-the-key", "it's one", "it\\'s one", "abc", "0123456789abcdef",
        "tokentoken", "inurl", "from:file", "from\\:file", "second"}) {
    INFO(secret);
    CHECK(clean("x " + std::string(secret) + " y") == "x *** y");
  }
  for (const char* plain :
       {"true", "/root/.pgpass", "/etc/pgwake/token", "/usr/bin", "comment", "broken line", "shop"})
    CHECK(clean(plain) == plain);
}

TEST_CASE("bundle: whatever a secret is made of, no form of it is left in text, JSON or logfmt") {
  std::mt19937 random(7);
  const std::string letters = "aZ09 '\"\\/:@?&=#;%\t\n\x01\x7f\xc3\xa9{},";
  const auto draw = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  for (int i = 0; i < 3'000; ++i) {
    std::string secret;
    for (std::size_t n = 3 + draw(20); n > 0; --n) secret += letters[draw(letters.size())];
    secret_filter clean;
    clean.add(secret);
    if (i % 2 == 0) clean.add(secret.substr(1) + "tail");  // one overlaps the other
    for (const auto& raw : {secret, printable(secret)}) {
      const auto quoted = toml::quote(raw);
      const auto inside = quoted.substr(1, quoted.size() - 2);
      INFO(raw);
      const auto out = clean("{\"a\":" + quoted + "} " + raw + " " + inside + inside);
      CHECK_FALSE(has(out, inside));
      CHECK_FALSE(has(out, raw));
    }
  }
}
