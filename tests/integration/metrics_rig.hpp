#pragma once

#include <string>
#include <utility>

#include "integration/http_client.hpp"
#include "integration/rig.hpp"

namespace pgwake::test {

/// A hub that serves metrics on a TCP port of its own.
class metrics_rig {
 public:
  explicit metrics_rig(rig_options options = {})
      : port_(random_port()), rig_(with_port(std::move(options))) {}

  rig* operator->() { return &rig_; }
  http_address address() const { return {.port = port_}; }
  std::string url(const std::string& target = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + target;
  }
  http_answer ask(std::string_view target, std::string_view headers = {},
                  std::string_view method = "GET") const {
    return http_ask(address(), target, headers, method);
  }
  double value(std::string_view series) const { return metric(address(), series); }

 private:
  rig_options with_port(rig_options options) const {
    options.arguments.insert(options.arguments.end(),
                             {"--metrics-listen", "127.0.0.1:" + std::to_string(port_)});
    return options;
  }

  int port_;
  rig rig_;
};

}  // namespace pgwake::test
