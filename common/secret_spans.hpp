#pragma once

#include <string>
#include <string_view>
#include <vector>

// Where passwords stand in connection strings, right ones and wrong ones. What redact.hpp is made of.
namespace pgwake {

// Half-open, never empty.
struct secret_span {
  std::size_t begin;
  std::size_t end;
};
// Ascending, none touching another.
using secret_spans = std::vector<secret_span>;

// Of a connection string, a URI or key=value pairs.
secret_spans secrets_of(std::string_view conninfo);
// Of one value that holds no secret by its key.
secret_spans strays_in(std::string_view value);
// Where what `password=`, or another such word, assigns begins in any text; npos: nowhere.
std::size_t find_assigned_secret(std::string_view text);

// Sorted, and merged where they touch.
secret_spans in_order(secret_spans all);

// Of libpq, and not for a secret.
bool is_keyword(std::string_view word);
// As far as it can be decoded; what cannot stays as it is.
std::string percent_decoded(std::string_view text);

}  // namespace pgwake
