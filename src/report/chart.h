// SPDX-License-Identifier: Apache-2.0
// chart.h -- a line chart as an SVG element of an HTML page. Colours are those of the page's style sheet.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace tutti::report {

struct Line {
  enum class Style { plain, faint, dashed };
  std::string name;
  int color = 0;  // class c0, c1, ...
  Style style = Style::plain;
  bool marks = false;  // a mark with its value at every point
  Points points;
};

struct Chart {
  std::string title, unit;  // of the y axis: "%", "samples/s", ""
  std::vector<Line> lines;
  bool from_zero = false;
};

// "" if no line has a point. Values that span more than a factor of 50 get a logarithmic axis.
std::string to_svg(const Chart&);

std::string html_text(const std::string&);  // escaped
// "12.3 k", "45", "0.00012": at most four digits.
std::string short_number(double);

}  // namespace tutti::report
