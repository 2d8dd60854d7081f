// A client of the front door: whatever it sends, what it is told are whole messages in PostgreSQL's form, its
// session keeps within its bounds, and asks of its owner what makes sense.
//
// The first byte says how the rest is taken: as it is, from the startup packet on; behind a startup packet;
// or as simple queries, one a line. Its upper bits say which LISTENs are refused.

#include <cstdint>
#include <set>
#include <string>

#include "daemon/door/session.hpp"
#include "fuzz/check.hpp"

namespace {

using namespace pgwaked::door;

std::string int32_of(std::size_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

std::string startup() {
  const std::string body = int32_of(3U << 16U) + std::string("user\0app\0database\0shop\0\0", 23);
  return int32_of(body.size() + 4) + body;
}

class owner {
 public:
  explicit owner(unsigned refusals) : refusals_(refusals) {}

  void give(std::string_view bytes) {
    s_.bytes(bytes);
    settle();
    s_.resume();
    settle();
    FUZZ_CHECK(s_.bytes_held() < (16U << 20U));
  }

 private:
  void settle() {
    for (int rounds = 0; rounds < 1'000; ++rounds) {
      read();
      if (s_.actions().empty()) return;
      for (auto& a : std::exchange(s_.actions(), {})) act(a);
    }
  }

  void act(session::action& a) {
    if (std::holds_alternative<session::ask_admission>(a)) {
      s_.admit({"PostgreSQL 15.1", "shop", "app", 0}, {{"server_version", "15.1"}});
    } else if (auto* x = std::get_if<session::subscribe>(&a)) {
      FUZZ_CHECK(!x->channel.empty() && x->channel.size() <= 63);
      FUZZ_CHECK(held_.insert(x->channel).second);
      refusals_ = refusals_ >> 1U | (refusals_ & 1U) << 4U;
      if ((refusals_ & 1U) != 0) {
        held_.erase(x->channel);
        s_.refused(x->channel, {"42501", "no", {}});
      } else {
        s_.acked(x->channel);
      }
    } else if (auto* u = std::get_if<session::unsubscribe>(&a)) {
      held_.erase(u->channel);
    } else if (std::holds_alternative<session::end>(a)) {
      FUZZ_CHECK(s_.closed());
    }
  }

  // Each message has a type that servers send, and the length that it says.
  void read() {
    auto& out = s_.output();
    FUZZ_CHECK(out.size() < (3U << 20U));
    std::size_t at = 0;
    while (at < out.size()) {
      if (!greeted_ && out[at] == 'N') {
        ++at;  // the answer to SSLRequest or GSSENCRequest, which has no length
        continue;
      }
      greeted_ = true;
      FUZZ_CHECK(std::string_view("RSKZCTDEN1234tnsIAv").find(out[at]) != std::string_view::npos);
      FUZZ_CHECK(out.size() - at >= 5);
      std::size_t length = 0;
      for (std::size_t i = 1; i <= 4; ++i) length = length << 8U | static_cast<unsigned char>(out[at + i]);
      FUZZ_CHECK(length >= 4 && at + 1 + length <= out.size());
      at += 1 + length;
    }
    out.clear();
  }

  unsigned refusals_;
  bool greeted_ = false;
  tally counts_;
  session s_{1U << 30U, "key!", counts_};
  std::set<std::string> held_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  owner o(data[0] >> 3U);
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] & 3U) {
    case 0:
      o.give(rest);
      break;
    case 1:
      o.give(startup());
      o.give(rest);
      break;
    default:
      o.give(startup());
      while (!rest.empty()) {
        const auto line = std::string(rest.substr(0, rest.find('\n')));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        o.give('Q' + int32_of(line.size() + 5) + line + '\0');
      }
  }
  return 0;
}
