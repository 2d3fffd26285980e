// SPDX-License-Identifier: Apache-2.0
// Reads matrices from text, one row per line.
#include "graph/text_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace tutti::graph {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == ','; }

void parse_row(const std::string& line, std::size_t number, const std::string& origin, const Node& node,
               std::vector<float>& row) {
  const char* p = line.data();
  const char* const end = p + line.size();
  while (true) {
    while (p != end && blank(*p)) ++p;
    if (p == end) return;
    if (*p == '+') ++p;
    float value = 0;
    const auto [rest, error] = std::from_chars(p, end, value);
    if (error != std::errc() || (rest != end && !blank(*rest)))
      throw ConfigError(
          node.where,
          fmt::format("parameter '{}': line {} of {} holds something that is not a number", node.name, number, origin),
          "write one row per line, numbers separated by blanks");
    row.push_back(value);
    p = rest;
  }
}

}  // namespace

TextMatrix parse_text_matrix(const std::string& text, const std::string& origin, const Node& node) {
  std::vector<std::vector<float>> rows;
  std::size_t at = 0, number = 0;
  while (at < text.size()) {
    const std::size_t stop = std::min(text.find('\n', at), text.size());
    std::vector<float> row;
    parse_row(text.substr(at, stop - at), ++number, origin, node, row);
    if (!row.empty() && !rows.empty() && row.size() != rows.front().size())
      throw ConfigError(node.where,
                        fmt::format("parameter '{}': line {} of {} has {} numbers, the lines before have {}", node.name,
                                    number, origin, row.size(), rows.front().size()),
                        "all rows need the same length");
    if (!row.empty()) rows.push_back(std::move(row));
    at = stop + 1;
  }
  if (rows.empty())
    throw ConfigError(node.where, fmt::format("parameter '{}': {} holds no numbers", node.name, origin));
  TextMatrix matrix{rows.size(), rows.front().size(), {}};
  for (std::size_t c = 0; c < matrix.columns; ++c)
    for (const auto& row : rows) matrix.values.push_back(row[c]);
  return matrix;
}

TextMatrix read_text_matrix(const std::string& path, const Node& node) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw ConfigError(node.where, fmt::format("parameter '{}': cannot read the file '{}'", node.name, path),
                      "check initFromFilePath; a relative path starts at the current directory");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_text_matrix(text, fmt::format("'{}'", path), node);
}

}  // namespace tutti::graph
