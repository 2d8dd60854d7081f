// A server, or something between it and its client, that answers a LISTEN with what nobody asked for. A hub
// and the library's own connection stand against each: bounded memory, answers for workers, no ack, and an
// end when told so.
#include <atomic>
#include <optional>

#include "attack/attack.hpp"
#include "attack/liar.hpp"
#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/cluster.hpp"
#include "support/hub_daemon.hpp"

namespace pgwake::attack {
namespace {

using test::cluster;

constexpr long most_kib = 64L * 1'024;  // that a process may grow by
constexpr auto how_long = 2'500ms;

std::string row(std::size_t bytes) {
  const std::string value(bytes, 'r');
  return message('D', int16(1) + int32(static_cast<std::uint32_t>(value.size())) + value);
}

std::string row_description() {
  return message('T', int16(1) + std::string("c\0", 2) + int32(0) + int16(0) + int32(25) + int16(-1) +
                          int32(-1) + int16(0));
}

std::string notice(char type, std::size_t bytes) {
  return message(type,
                 std::string("SERROR\0C57014\0M", 15) + std::string(bytes, 'm') + std::string("\0\0", 2));
}

const std::string ready = message('Z', "I");
const std::string complete = message('C', std::string("LISTEN\0", 7));

// How the hub stands it; the trigger is the LISTEN of a channel that only this worker wants.
std::string against_hub(const std::string& first, const std::string& again) {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  liar server(pg.port(), "LISTEN \"victim\"", first, again);
  test::hub_daemon hub({.database = server.conninfo(database)});
  auto worker = hub.connect_v1("victim");
  auto other = hub.connect_v1("other");
  other.subscribe("other", 10s);
  const auto before = hub.child().rss_kib();
  long most = 0;
  worker.sub("victim");
  const auto until = clock::now() + how_long;
  while (clock::now() < until) {
    try {
      other.until_pong(2s);
    } catch (const std::exception&) {
      return "the hub does not answer a ping";
    }
    most = std::max(most, hub.child().rss_kib() - before);
    for (const auto& f : worker.drain(20ms))
      if (f.t() == "ack" && f.q() == "victim") return "acked without a LISTEN that committed";
  }
  if (server.lies() == 0) return "the LISTEN never came to the liar";
  if (most > most_kib) return "the hub grew by " + std::to_string(most / 1'024) + " MiB";
  if (!hub.running()) return "the hub has ended";
  if (hub.stop(8s) != 0) return "the hub does not stop";
  return {};
}

// And the library, by its own connection.
std::string against_library(const std::string& first, const std::string& again) {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  liar server(pg.port(), "LISTEN \"victim\"", first, again);
  std::optional<test::witness> w(std::in_place, "/nonexistent", server.conninfo(database),
                                 test::client_values{{"policy", "direct"}});
  if (w->client().subscribe("victim", std::chrono::milliseconds(how_long)))
    return "the library says subscribed without a LISTEN that committed";
  if (server.lies() == 0) return "the LISTEN never came to the liar";
  const auto took = test::time_of([&] { w.reset(); });
  if (took > 5s) return "pgwake_close took " + std::to_string(took.count()) + " ms";
  return {};
}

std::string both(const std::string& first, const std::string& again) {
  if (const auto fault = against_hub(first, again); !fault.empty()) return fault;
  return against_library(first, again);
}

std::string copy_out() {
  return both(message('H', std::string("\0", 1) + int16(0)), message('d', std::string(1'000, 'd')));
}
std::string copy_in() { return both(message('G', std::string("\0", 1) + int16(0)) + ready, {}); }
std::string copy_both() { return both(message('W', std::string("\0", 1) + int16(0)), message('d', "x")); }
std::string endless_rows() { return both(row_description(), row(20)); }
std::string large_row() {
  return both(row_description() + std::string("D") + int32(1'000'000'000) + int16(1) + int32(999'999'990),
              std::string(1'000, 'r'));
}
std::string endless_results() { return both({}, complete); }
std::string parameters() {
  static std::string many;
  if (many.empty())
    for (int i = 0; i < 200'000; ++i)
      many += message('S', "name" + std::to_string(i) + std::string(1, '\0') + std::string(200, 'v') +
                               std::string(1, '\0'));
  return both(many, {});
}
std::string notices() { return both({}, notice('N', 2'000)); }
std::string errors() { return both({}, notice('E', 2'000)); }
std::string large_error() { return both(std::string("E") + int32(1'000'000'000), std::string(1'000, 'e')); }
std::string ready_alone() { return both(ready, {}); }
std::string empty_query() { return both(message('I') + ready, {}); }
std::string rows_for_listen() {
  return both(row_description() + row(3) + message('C', std::string("SELECT 1\0", 9)) + ready, {});
}
std::string error_after_complete() { return both(complete + notice('E', 20) + ready, {}); }
std::string garbage() { return both(std::string("\xff\xfe\xfd\xfc\xfb\xfa", 6), "garbage"); }
std::string login_again() { return both(message('R', int32(3)), message('R', int32(0))); }
std::string endless_message() { return both(std::string("C") + int32(0x7ffffff0), std::string(1'000, 'c')); }

}  // namespace

const std::vector<deception>& false_servers() {
  static const std::vector<deception> all{
      {"copy-out", "false server", "COPY OUT without an end", copy_out, true},
      {"copy-in", "false server", "COPY IN", copy_in},
      {"copy-both", "false server", "COPY BOTH without an end", copy_both},
      {"rows", "false server", "rows without an end", endless_rows, true},
      {"large-row", "false server", "a row of 1 GB", large_row},
      {"results", "false server", "results without an end", endless_results},
      {"parameters", "false server", "200,000 ParameterStatus", parameters},
      {"notices", "false server", "notices without an end", notices},
      {"errors", "false server", "errors without an end", errors},
      {"large-error", "false server", "an error of 1 GB", large_error},
      {"ready-alone", "false server", "ReadyForQuery alone", ready_alone, true},
      {"empty-query", "false server", "EmptyQueryResponse", empty_query},
      {"rows-for-listen", "false server", "rows, complete, ready", rows_for_listen},
      {"error-after-complete", "false server", "complete, then an error", error_after_complete},
      {"garbage", "false server", "bytes that are no message", garbage},
      {"login-again", "false server", "asks for a password again", login_again},
      {"endless-message", "false server", "a message of 2 GB", endless_message},
  };
  return all;
}

}  // namespace pgwake::attack
