#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pgwaked {

// Takes known secrets out of text that leaves the host, whatever let them in. Pure.
class secret_filter {
 public:
  // A password, key or token. Those under three bytes would be found in any text, and are not looked for.
  void add(std::string_view secret);
  // The passwords of a connection string, or of a text that may be one.
  void add_conninfo(const std::string& conninfo);
  // Variables whose names say that they hold a secret, and connection strings in any variable.
  void add_environment(const std::vector<std::pair<std::string, std::string>>& environment);
  // The passwords of a libpq password file.
  void add_passfile(std::string_view content);

  // `text` with `***` in place of each of them, as it is or as JSON, logfmt and the terminal show it.
  std::string operator()(std::string_view text) const;

 private:
  std::vector<std::string> forms_;
};

}  // namespace pgwaked
