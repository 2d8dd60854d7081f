#include "daemon/core/dialect.hpp"

#include <variant>

namespace pgwaked {

using namespace pgwake;

void dialect_v0::encode(std::string& out, const from_hub& message) const {
  if (std::holds_alternative<ack>(message) || std::holds_alternative<nack>(message)) {
    pgwake::encode(out, message);
  } else if (const auto* s = std::get_if<status>(&message)) {
    encode_plain(out, *s);
  }
}

void dialect_v0::encode(std::string& out, const wake_view& wake) const {
  auto plain = wake;
  plain.q = names_.queue(wake.q).value_or(wake.q);
  plain.plain = true;
  pgwake::encode(out, plain);
}

}  // namespace pgwaked
