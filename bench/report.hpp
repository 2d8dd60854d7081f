#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pgwake::bench {

// One contestant's values of one metric, one per repetition.
struct series {
  std::string name;
  std::vector<double> values;
};

// What a cell has to show.
struct bar {
  enum class sense { at_most, at_least };
  sense how;
  double value;
};
inline bar at_most(double value) { return {bar::sense::at_most, value}; }
inline bar at_least(double value) { return {bar::sense::at_least, value}; }

// One line of the table. With a rival the bar is on the ratio ours / rival, else on our own median.
struct cell {
  std::string scenario;
  std::string variant;  // "8 receivers"
  std::string metric;   // "p50"
  std::string unit;     // "us"
  series ours;
  std::optional<series> rival{};
  std::optional<bar> wanted{};

  double ours_median() const;
  double rival_median() const;              // only with a rival
  std::vector<double> pair_ratios() const;  // ours / rival, repetition by repetition
  double ratio() const;                     // their median
  std::optional<bool> met() const;          // nothing: no bar
};

// Collects cells, prints each as it comes, and writes a JSON file and a plot per scenario.
class report {
 public:
  explicit report(std::string directory);
  void add(cell c);
  void note(const std::string& scenario, const std::string& text);  // a line of prose into table and JSON
  // Writes SCENARIO.json, SCENARIO.svg and SCENARIO.md (a table).
  void write(const std::string& scenario, const std::string& machine_json) const;
  // All bars and whether they are met; true if every one is.
  bool summarize() const;

  const std::vector<cell>& cells() const { return cells_; }

 private:
  struct remark {
    std::string scenario;
    std::string text;
  };
  std::string directory_;
  std::vector<cell> cells_;
  std::vector<remark> notes_;
};

std::string shown(double value);  // three significant digits, thousands separated

}  // namespace pgwake::bench
