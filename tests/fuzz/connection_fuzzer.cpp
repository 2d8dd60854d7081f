// A whole connection's bytes through the engine: frame, codec, worker protocol, hub. The hub lives, what it
// answers is well formed and bounded, and another worker does not notice.

#include "fuzz/check.hpp"
#include "unit/core/engine_rig.hpp"

namespace {

using pgwake::test::engine_rig;
using namespace std::chrono_literals;

const auto good_sub = pgwake::test::framed(R"({"t":"sub","q":"good"})");

// Every frame it was sent decodes; how many there were.
std::size_t read_all(engine_rig& r, pgwaked::worker_id id) {
  std::size_t n = 0;
  for (const auto& frame : r.read(id)) {
    FUZZ_CHECK(!frame.starts_with("MALFORMED") && !frame.starts_with("BROKEN") && frame.front() != '(');
    ++n;
  }
  return n;
}

void notify_all(engine_rig& r) {
  std::vector<std::string> names;
  for (const auto& c : r.engine.the_hub().channels()) names.emplace_back(c.name);
  for (const auto& name : names) {
    r.engine.notification(name, "", 1, r.now);
    r.engine.notification(name, "payload \xFF", 2, r.now);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t piece = data[0] % 100 + 1;
  const bool outage = (data[1] & 1U) != 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);

  auto config = engine_rig::defaults();
  config.limits.max_channels = 20;
  config.limits.control_max_bytes = 4'000;
  engine_rig r(config);
  r.serve();
  const auto good = r.join();
  r.bytes(good, good_sub);
  r.serve();
  r.read(good);
  const auto id = r.engine.joined({1, 33, 33}, "fuzz", r.now);
  if (outage) r.lose();
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    if (!r.engine.may_read(id)) {
      const auto* box = r.engine.open_outbox(id);
      if (box != nullptr) FUZZ_CHECK(box->control_memory() < 4'000 + 6'000);
      read_all(r, id);
    }
    r.bytes(id, part);
    if (!outage) r.serve();
  }
  if (outage) r.recover();
  for (auto& action : r.took()) FUZZ_CHECK(!action.empty());
  notify_all(r);
  read_all(r, id);
  const auto got = r.read(good);
  FUZZ_CHECK(std::count(got.begin(), got.end(), "wake good =payload \xFF by 2") == 1);
  r.now += 10s;
  r.engine.tick(r.now, true);
  r.engine.left(id, r.now);
  FUZZ_CHECK(r.engine.the_hub().channel_count() == 1);
  FUZZ_CHECK(r.engine.the_upstream().plan().wanted_count() == 1);
  return 0;
}
