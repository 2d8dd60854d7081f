#include "bench/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench/stats.hpp"

namespace pgwake::bench {
namespace {

constexpr double width = 860;
constexpr double label_width = 250;
constexpr double value_width = 190;
constexpr double row_height = 15;
constexpr std::array<const char*, 2> colours = {"#1f6feb", "#b0b8c0"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string text_at(double x, double y, const std::string& text, const char* style = "") {
  std::array<char, 96> head{};
  std::snprintf(head.data(), head.size(), "<text x=\"%.1f\" y=\"%.1f\" ", x, y);
  return std::string(head.data()) + style + ">" + escaped(text) + "</text>\n";
}

std::string box(double x, double y, double w, double h, const char* colour) {
  std::array<char, 160> out{};
  std::snprintf(out.data(), out.size(),
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, w, h,
                colour);
  return out.data();
}

// Bars grow with the logarithm, from half the least value on.
class scale {
 public:
  explicit scale(const std::vector<const cell*>& cells) {
    for (const auto* c : cells) {
      take(c->ours.values);
      if (c->rival) take(c->rival->values);
    }
    low_ /= 2;
  }
  double operator()(double value) const {
    const double room = width - label_width - value_width;
    if (value <= low_ || high_ <= low_) return 1;
    return std::max(1.0, room * std::log(value / low_) / std::log(high_ / low_));
  }

 private:
  void take(const std::vector<double>& values) {
    const double m = std::max(median(values), 1e-9);
    low_ = low_ == 0 ? m : std::min(low_, m);
    high_ = std::max(high_, m);
  }
  double low_ = 0;
  double high_ = 0;
};

std::string draw(const series& s, const std::string& unit, const scale& at, double y, const char* colour,
                 const std::string& more) {
  const double value = median(s.values);
  return box(label_width, y, at(value), row_height - 3, colour) +
         text_at(label_width + at(value) + 5, y + row_height - 5,
                 s.name + ": " + shown(value) + " " + unit + more, "fill=\"#333\"");
}

double panel(std::string& out, const std::string& metric, const std::vector<const cell*>& cells, double y) {
  const scale at(cells);
  out += text_at(10, y + 14, metric + ", " + cells.front()->unit + " (logarithmic)", "font-weight=\"bold\"");
  y += 24;
  for (const auto* c : cells) {
    out += text_at(10, y + row_height - 4, c->variant);
    out += draw(c->ours, c->unit, at, y, colours[0], c->rival ? "  (x " + shown(c->ratio()) + ")" : "");
    y += row_height;
    if (c->rival) {
      out += draw(*c->rival, c->unit, at, y, colours[1], "");
      y += row_height;
    }
    y += 5;
  }
  return y + 12;
}

}  // namespace

std::string plot(const std::string& title, const std::vector<cell>& cells) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const cell*>> panels;
  for (const auto& c : cells) {
    auto& cells_of = panels[c.metric];
    if (cells_of.empty()) order.push_back(c.metric);
    cells_of.push_back(&c);
  }
  std::string body = text_at(10, 22, "pgwake bench: " + title, "font-size=\"16\" font-weight=\"bold\"");
  double y = 36;
  for (const auto& metric : order) y = panel(body, metric, panels[metric], y);
  std::array<char, 320> head{};
  std::snprintf(
      head.data(), head.size(),
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
      "fill=\"white\"/>\n",
      width, y, width, y);
  return head.data() + body + "</svg>\n";
}

}  // namespace pgwake::bench
