#include "bench/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "bench/plot.hpp"
#include "bench/stats.hpp"

namespace pgwake::bench {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

std::string number(double value) {
  std::ostringstream out;
  out.precision(6);
  out << value;
  return out.str();
}

std::string json(const series& s) {
  std::string out =
      "{\"name\":" + quoted(s.name) + ",\"median\":" + number(median(s.values)) + ",\"values\":[";
  for (std::size_t i = 0; i < s.values.size(); ++i) out += (i > 0 ? "," : "") + number(s.values[i]);
  return out + "]}";
}

std::string words(const bar& b) { return (b.how == bar::sense::at_most ? "<= " : ">= ") + shown(b.value); }

std::string json(const cell& c) {
  std::string out = "{\"variant\":" + quoted(c.variant) + ",\"metric\":" + quoted(c.metric) +
                    ",\"unit\":" + quoted(c.unit) + ",\"ours\":" + json(c.ours);
  if (c.rival) {
    out += ",\"rival\":" + json(*c.rival) + ",\"ratio\":" + number(c.ratio());
    const auto ratios = c.pair_ratios();
    out += ",\"ratio_low\":" + number(lowest(ratios)) + ",\"ratio_high\":" + number(highest(ratios));
  }
  if (c.wanted) out += ",\"bar\":" + quoted(words(*c.wanted)) + ",\"met\":" + (*c.met() ? "true" : "false");
  return out + "}";
}

std::string spread(const std::vector<double>& values) {
  return values.size() < 2 ? "" : " (" + shown(lowest(values)) + ".." + shown(highest(values)) + ")";
}

std::string line(const cell& c) {
  std::string out = "  " + c.variant + ", " + c.metric + ": " + c.ours.name + " " + shown(c.ours_median()) +
                    " " + c.unit + spread(c.ours.values);
  if (c.rival) {
    out += " | " + c.rival->name + " " + shown(c.rival_median()) + spread(c.rival->values) + " | ratio " +
           shown(c.ratio()) + spread(c.pair_ratios());
  }
  if (c.wanted) out += std::string(" | bar ") + words(*c.wanted) + (*c.met() ? " met" : " NOT MET");
  return out;
}

std::string markdown(const std::vector<cell>& cells) {
  std::string out =
      "| what | metric | pgwake | beside | ratio | bar |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const auto& c : cells) {
    out += "| " + c.variant + " | " + c.metric + ", " + c.unit + " | " + shown(c.ours_median());
    out += c.rival ? " | " + c.rival->name + " " + shown(c.rival_median()) : " | ";
    out += c.rival ? " | " + shown(c.ratio()) + spread(c.pair_ratios()) : " | ";
    out += c.wanted ? " | " + words(*c.wanted) + (*c.met() ? ", met" : ", not met") : " | ";
    out += " |\n";
  }
  return out;
}

}  // namespace

std::string shown(double value) {
  if (value == 0) return "0";
  const double size = std::fabs(value);
  const int digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 4;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  std::string out = text;
  const auto whole = std::min(out.find('.'), out.size());
  for (auto at = whole; at > 3 + (value < 0 ? 1U : 0U); at -= 3) out.insert(at - 3, ",");
  return out;
}

double cell::ours_median() const { return median(ours.values); }
double cell::rival_median() const { return median(rival->values); }

std::vector<double> cell::pair_ratios() const {
  std::vector<double> out;
  const auto n = std::min(ours.values.size(), rival->values.size());
  for (std::size_t i = 0; i < n; ++i) out.push_back(ours.values[i] / rival->values[i]);
  return out;
}

double cell::ratio() const { return median(pair_ratios()); }

std::optional<bool> cell::met() const {
  if (!wanted) return std::nullopt;
  const double value = rival ? ratio() : ours_median();
  return wanted->how == bar::sense::at_most ? value <= wanted->value : value >= wanted->value;
}

report::report(std::string directory) : directory_(std::move(directory)) {}

void report::add(cell c) {
  if (cells_.empty() || cells_.back().scenario != c.scenario) std::printf("%s\n", c.scenario.c_str());
  std::printf("%s\n", line(c).c_str());
  std::fflush(stdout);
  cells_.push_back(std::move(c));
}

void report::note(const std::string& scenario, const std::string& text) {
  std::printf("  %s\n", text.c_str());
  std::fflush(stdout);
  notes_.push_back({scenario, text});
}

void report::write(const std::string& scenario, const std::string& machine_json) const {
  std::vector<cell> mine;
  for (const auto& c : cells_)
    if (c.scenario == scenario) mine.push_back(c);
  if (mine.empty()) return;
  std::ofstream out(directory_ + "/" + scenario + ".json");
  out << "{\"scenario\":" << quoted(scenario) << ",\"machine\":" << machine_json << ",\"cells\":[\n";
  for (std::size_t i = 0; i < mine.size(); ++i) out << json(mine[i]) << (i + 1 < mine.size() ? ",\n" : "\n");
  out << "],\"notes\":[";
  bool first = true;
  for (const auto& n : notes_) {
    if (n.scenario != scenario) continue;
    out << (first ? "" : ",") << quoted(n.text);
    first = false;
  }
  out << "]}\n";
  std::ofstream(directory_ + "/" + scenario + ".svg") << plot(scenario, mine);
  std::ofstream(directory_ + "/" + scenario + ".md") << markdown(mine);
}

bool report::summarize() const {
  std::size_t bars = 0;
  std::size_t met = 0;
  std::printf("\nbars\n");
  for (const auto& c : cells_) {
    if (!c.wanted) continue;
    ++bars;
    met += *c.met() ? 1 : 0;
    const double value = c.rival ? c.ratio() : c.ours_median();
    std::printf("  %-8s %-11s %s, %s: %s %s(wanted %s)\n", *c.met() ? "met" : "NOT MET", c.scenario.c_str(),
                c.variant.c_str(), c.metric.c_str(), shown(value).c_str(),
                c.rival ? ("x " + c.rival->name + " ").c_str() : (c.unit + " ").c_str(),
                words(*c.wanted).c_str());
  }
  std::printf("%zu of %zu bars met\n", met, bars);
  return met == bars;
}

}  // namespace pgwake::bench
