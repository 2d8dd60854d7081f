// All SQL that the sources send, or tell people to run.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

// The literals of each statement of a file, joined; what stands between them, a variable mostly, is a `?`.
std::vector<std::string> texts_of(const std::string& code) {
  std::vector<std::string> out(1);
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code.compare(i, 2, "//") == 0) {
      i = std::min(code.find('\n', i), code.size());
    } else if (code[i] == '\'') {  // a character, or a digit separator
      if (i + 2 < code.size() && (code[i + 1] == '\\' || code[i + 2] == '\''))
        i += code[i + 1] == '\\' ? 3 : 2;
    } else if (code[i] == '"') {
      for (++i; i < code.size() && code[i] != '"'; ++i) {
        if (code[i] == '\\') ++i;
        out.back() += code[i];
      }
    } else if (code[i] == ';') {
      out.emplace_back();
    } else if (code[i] == '+') {
      out.back() += '?';
    }
  }
  return out;
}

// Functions and relations that a search_path could replace.
std::vector<std::string> unqualified_in(const std::string& text) {
  std::vector<std::string> out;
  if (text.find("SELECT ") == text.npos) return out;
  static const std::regex name(R"(([A-Za-z_.]+)\()");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    const auto called = (*it)[1].str();
    if (called.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ.") == called.npos && called != "extract" &&
        called != "w")
      out.push_back(called);
    else if (called.find('.') != called.npos && called.rfind("pg_catalog.", 0) != 0)
      out.push_back(called);
  }
  static const std::regex relation(R"((?:FROM|JOIN|, )\s*(pg_[a-z_]+)\b)");
  for (std::sregex_iterator it(text.begin(), text.end(), relation), end; it != end; ++it)
    if ((*it)[1].str() != "pg_catalog") out.push_back((*it)[1].str());
  return out;
}

}  // namespace

TEST_CASE(
    "SQL: every function and relation is named with its schema, so that no search_path puts another first") {
  int seen = 0;
  for (const char* room : {"common", "daemon", "client/src"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(PGWAKE_SOURCE_DIR) + "/" + room)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      std::ifstream in(entry.path());
      const std::string code{std::istreambuf_iterator<char>(in), {}};
      for (const auto& text : texts_of(code)) {
        seen += text.find("pg_catalog.") != text.npos ? 1 : 0;
        CAPTURE(entry.path().string(), text);
        CHECK(unqualified_in(text) == std::vector<std::string>());
      }
    }
  }
  CHECK(seen >= 10);
  CHECK(unqualified_in("SELECT count(*) FROM pg_stat_activity") ==
        std::vector<std::string>{"count", "pg_stat_activity"});
  CHECK(unqualified_in("SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity").empty());
}
