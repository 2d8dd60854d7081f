// A worker of the chaos run: subscribes, keeps the books on what it is given, and reports when it is asked to
// by a message on `report`: one line, `report ID received=N gaps=N faults=N a=LAST b=LAST ...`, each fault on
// a line before.
#include <iostream>
#include <map>
#include <pgwake/pgwake.hpp>
#include <string>
#include <vector>

namespace {

struct book {
  int last = 0;
  bool gap = true;
};

class worker {
 public:
  explicit worker(std::vector<std::string> channels) : channels_(std::move(channels)) {
    for (const auto& c : channels_) books_[c];
  }

  void run() {
    auto all = channels_;
    all.push_back("report");
    if (!listener_.subscribe(all, std::chrono::seconds(60)).empty())
      throw std::runtime_error("cannot subscribe");
    std::cout << "subscribed" << std::endl;
    while (const auto e = listener_.next()) take(*e);
  }

 private:
  void take(const pgwake::event& e) {
    if (e.is_refused()) fault("refused: " + std::string(e.channel()));
    if (!e.is_wake()) return;
    if (e.channel() == "report") {
      if (e.payload()) report(*e.payload());
      return;
    }
    auto& b = books_[std::string(e.channel())];
    if (e.is_gap()) {
      b.gap = true;
      ++gaps_;
    } else if (e.payload()) {
      const int n = std::stoi(std::string(*e.payload()));
      const auto where = std::string(e.channel()) + ": " + std::to_string(n) + " after " +
                         std::to_string(b.last) + " from " + pgwake_source_name(e.raw().source);
      if (n <= b.last)
        fault(where);
      else if (!b.gap && n != b.last + 1)
        fault(where + " without a gap");
      b = {n, false};
      ++received_;
    }
  }

  void fault(const std::string& what) {
    ++faults_;
    std::cout << "fault " << what << std::endl;
  }

  void report(std::string_view id) {
    const auto s = listener_.state();
    std::cout << "report " << id << " received=" << received_ << " gaps=" << gaps_ << " faults=" << faults_
              << " source=" << pgwake_source_name(s.source) << " healthy=" << s.healthy
              << " falls=" << s.falls << " handovers=" << s.handovers << " aborted=" << s.handovers_aborted;
    for (const auto& c : channels_) std::cout << ' ' << c << '=' << books_[c].last;
    std::cout << std::endl;
  }

  std::vector<std::string> channels_;
  pgwake::listener listener_;
  std::map<std::string, book> books_;
  int received_ = 0;
  int gaps_ = 0;
  int faults_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    worker({argv + 1, argv + argc}).run();
  } catch (const std::exception& e) {
    std::cout << "fault " << e.what() << std::endl;
    return 1;
  }
  return 0;
}
