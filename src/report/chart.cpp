// SPDX-License-Identifier: Apache-2.0
#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::report {
namespace {

constexpr double kWidth = 560, kHeight = 250, kLeft = 62, kRight = 12, kTop = 12, kBottom = 34;
constexpr std::size_t kMostMarks = 50;
constexpr std::size_t kMostPoints = 500;  // of a line: about one per pixel

struct Axis {
  double from = 0, to = 1, start = 0, length = 1;  // values, pixels
  bool logarithmic = false;
  double at(double v) const {
    const double share =
        logarithmic ? std::log(std::max(v, from) / from) / std::log(to / from) : (v - from) / (to - from);
    return start + length * share;
  }
};

// Multiples of 1, 2 or 5 times a power of ten.
std::vector<double> ticks(const Axis& a, int most) {
  std::vector<double> found;
  if (a.logarithmic) {
    for (double power = std::pow(10, std::floor(std::log10(a.from))); power <= a.to; power *= 10)
      for (const double digit : {1.0, 2.0, 5.0})
        if (power * digit >= a.from && power * digit <= a.to) found.push_back(power * digit);
    if (static_cast<int>(found.size()) > 2 * most)
      std::erase_if(found, [](double v) { return std::abs(std::remainder(std::log10(v), 1)) > 1e-6; });
    return found;
  }
  const double raw = (a.to - a.from) / most, power = std::pow(10, std::floor(std::log10(raw)));
  const double step = power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
  for (double v = std::ceil(a.from / step - 1e-9) * step; v <= a.to + step * 1e-6; v += step)
    found.push_back(std::abs(v) < step * 1e-6 ? 0 : v);
  return found;
}

// Means of runs of neighbours.
Points thinned(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points out;
  for (std::size_t i = 0; i < kMostPoints; ++i) {
    const std::size_t first = points.size() * i / kMostPoints, last = points.size() * (i + 1) / kMostPoints;
    double x = 0, y = 0;
    for (std::size_t p = first; p < last; ++p) x += points[p].first, y += points[p].second;
    out.emplace_back(x / static_cast<double>(last - first), y / static_cast<double>(last - first));
  }
  return out;
}

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double v) { least = std::min(least, v), most = std::max(most, v); }
};

Axis y_axis(const Chart& chart, Range y) {
  Axis a;
  a.logarithmic = !chart.from_zero && y.least > 0 && y.most > 50 * y.least;
  if (chart.from_zero) y.add(0);
  if (y.most <= y.least) {
    const double around = y.least != 0 ? std::abs(y.least) / 5 : 1;
    y.most += around;
    if (!chart.from_zero) y.least -= around;
  }
  const double margin = chart.from_zero ? 0 : 0.04 * (y.most - y.least);
  a.from = a.logarithmic ? y.least / 1.1 : y.least - (y.least >= 0 ? std::min(margin, y.least) : margin);
  a.to = a.logarithmic ? y.most * 1.1 : y.most + 0.04 * (y.most - y.least);
  a.start = kHeight - kBottom, a.length = -(kHeight - kTop - kBottom);
  return a;
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  for (const double v : ticks(y, 5))
    svg += fmt::format(
        "<line class='grid' x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}'/><text class='tick' x='{3}' y='{4:.1f}' "
        "text-anchor='end'>{5}</text>\n",
        kLeft, kWidth - kRight, y.at(v), kLeft - 6, y.at(v) + 4, short_number(v));
  for (const double v : ticks(x, x.to >= 2 ? std::min(8, static_cast<int>(x.to)) : 8))
    svg += fmt::format("<text class='tick' x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x.at(v),
                       kHeight - kBottom + 16, short_number(v));
  return svg + fmt::format(
                   "<line class='axis' x1='{0}' x2='{1}' y1='{2}' y2='{2}'/>\n<text class='tick' x='{3}' y='{4}' "
                   "text-anchor='middle'>epochs</text>\n",
                   kLeft, kWidth - kRight, kHeight - kBottom, (kLeft + kWidth - kRight) / 2, kHeight - 4);
}

std::string line_svg(const Line& line, const std::string& unit, const Axis& x, const Axis& y) {
  constexpr const char* classes[] = {"", " faint", " dashed"};
  std::string path;
  for (const auto& [px, py] : thinned(line.points)) path += fmt::format("{:.1f},{:.1f} ", x.at(px), y.at(py));
  std::string svg = fmt::format("<polyline class='line c{}{}' points='{}'><title>{}</title></polyline>\n", line.color,
                                classes[static_cast<int>(line.style)], path, html_text(line.name));
  if (!line.marks || line.points.size() > kMostMarks) return svg;
  const std::string after_number = unit.empty() || unit[0] == '%' ? unit : " " + unit;
  for (const auto& [px, py] : line.points)
    svg += fmt::format(
        "<circle class='mark c{}' cx='{:.1f}' cy='{:.1f}' r='2.6'><title>{}, epoch {}: {}{}</title></circle>\n",
        line.color, x.at(px), y.at(py), html_text(line.name), short_number(px), short_number(py), after_number);
  return svg;
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string short_number(double v) {
  constexpr const char* units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (std::abs(v) >= 9999.5 && unit < 4) v /= 1000, ++unit;
  return fmt::format("{:.4g}{}", v, units[unit]);
}

std::string to_svg(const Chart& chart) {
  Range x, y;
  for (const Line& line : chart.lines)
    for (const auto& [px, py] : line.points) x.add(px), y.add(py);
  if (x.most < x.least) return {};
  Axis over{0, std::max(x.most, 1e-9), kLeft, kWidth - kLeft - kRight};
  // The last log line of an epoch may come a little before its end.
  if (over.to > 1 && std::ceil(over.to) - over.to < 0.1) over.to = std::ceil(over.to);
  if (x.least > 1 && x.least == x.most) over.from = x.least - 1;
  const Axis up = y_axis(chart, y);
  std::string svg =
      fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>\n", kWidth, kHeight, html_text(chart.title));
  svg += grid(over, up);
  for (const Line& line : chart.lines)
    if (!line.points.empty()) svg += line_svg(line, chart.unit, over, up);
  return svg + "</svg>\n";
}

}  // namespace tutti::report
