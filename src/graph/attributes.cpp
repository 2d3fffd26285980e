// SPDX-License-Identifier: Apache-2.0
// Accessors of node attributes, what shape rules say about dims, and matrices written as text.
#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "graph/initialize.h"
#include "graph/shape_rules.h"

namespace tutti::graph {
namespace {

template <class T>
T attribute(const Node& node, const std::string& name, const T& otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  assert(value && "attribute of another type than the table of operations says");
  return *value;
}

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
    auto [rest, error] = std::from_chars(p, end, value);
    if (error == std::errc::result_out_of_range) {  // too small, as in files written from float64, is 0
      value = std::strtof(std::string(p, rest).c_str(), nullptr);
      if (std::isfinite(value)) error = {};
    }
    if (error != std::errc() || (rest != end && !blank(*rest)))
      throw ConfigError(
          node.where,
          fmt::format("parameter '{}': line {} of {} holds something that is not a number", node.name, number, origin),
          "write one row per line, numbers separated by blanks");
    row.push_back(value);
    p = rest;
  }
}

[[noreturn]] void no_numbers(const std::string& origin, const Node& node) {
  throw ConfigError(node.where, fmt::format("parameter '{}': {} holds no numbers", node.name, origin),
                    "write one row per line, numbers separated by blanks");
}

std::ifstream open_matrix(const std::string& path, const Node& node) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw ConfigError(node.where, fmt::format("parameter '{}': cannot read the file '{}'", node.name, path),
                      "check initFromFilePath; a relative path starts at the current directory");
  return file;
}

}  // namespace

bool flag(const Node& node, const std::string& name, bool otherwise) { return attribute(node, name, otherwise); }
double number(const Node& node, const std::string& name, double otherwise) { return attribute(node, name, otherwise); }
std::string text(const Node& node, const std::string& name, const std::string& otherwise) {
  return attribute(node, name, otherwise);
}
std::vector<double> numbers(const Node& node, const std::string& name) {
  return attribute(node, name, std::vector<double>{});
}

void fail(const Node& node, const std::string& what, const std::string& fix) {
  throw ConfigError(node.where, fmt::format("{} '{}': {}", node.operation, node.name, what), fix);
}

bool has_unknown(const Shape& s) { return std::find(s.dims.begin(), s.dims.end(), std::size_t{0}) != s.dims.end(); }

Shape filled(Shape s, const Shape& from) {
  for (std::size_t axis = 0; axis < s.rank(); ++axis)
    if (s.dims[axis] == 0) s.dims[axis] = from[axis];
  return s;
}

bool alike(const Shape& a, const Shape& b) {
  for (std::size_t axis = 0; axis < std::max(a.rank(), b.rank()); ++axis)
    if (a[axis] != b[axis] && a[axis] != 0 && b[axis] != 0) return false;
  return true;
}

std::size_t whole_number(const ShapeCall& c, const char* name, double least, double most, const char* advice) {
  const double value = number(c.node, name, 1);
  if (value < least || value > most || value != std::floor(value))
    c.fail(fmt::format("{} cannot be {}", name, value), fmt::format("{} is 1, 2, ...{}", name, advice));
  return static_cast<std::size_t>(value);
}

Shape declared_shape(const Node& node) {
  Shape shape;
  for (const double d : numbers(node, "dims")) {
    if (d < 0 || d != std::floor(d) || d > 1e12)
      fail(node, fmt::format("a dimension cannot be {}", d), "dimensions are whole numbers from 1, or 0 to infer them");
    shape.dims.push_back(static_cast<std::size_t>(d));
  }
  return shape;
}

std::size_t axis_index(const Node& node, const std::string& attribute, double otherwise, std::size_t rank) {
  const double axis = number(node, attribute, otherwise);
  const double index = axis > 0 ? axis - 1 : static_cast<double>(rank) + axis;
  if (axis == 0 || index < 0 || index >= static_cast<double>(rank) || axis != std::floor(axis))
    fail(node, fmt::format("{} = {} is not one of the {} axes of the input", attribute, axis, rank),
         "axes count from 1, negative ones from the end");
  return static_cast<std::size_t>(index);
}

Range slice_range(const Node& node, std::size_t dim) {
  const auto n = static_cast<double>(dim);
  const double begin = number(node, "begin", 0), end = number(node, "end", 0);
  const double first = begin < 0 ? begin + n : begin;
  const double last = end <= 0 ? end + n : end;
  if (first < 0 || last > n || first >= last)
    fail(node, fmt::format("[{}, {}) is not a part of an axis with {} elements", begin, end, dim),
         "begin counts from 0, end is the element behind the last; negative values count from the end");
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

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
  if (rows.empty()) no_numbers(origin, node);
  TextMatrix matrix{{rows.size(), rows.front().size()}, {}};
  for (std::size_t c = 0; c < matrix.columns; ++c)
    for (const auto& row : rows) matrix.values.push_back(row[c]);
  return matrix;
}

MatrixSize text_matrix_size(const std::string& path, const Node& node) {
  std::ifstream file = open_matrix(path, node);
  MatrixSize size;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (std::all_of(line.begin(), line.end(), blank)) continue;
    if (++size.rows > 1) continue;
    std::vector<float> row;
    parse_row(line, number, fmt::format("'{}'", path), node, row);
    size.columns = row.size();
  }
  if (size.rows == 0) no_numbers(fmt::format("'{}'", path), node);
  return size;
}

TextMatrix read_text_matrix(const std::string& path, const Node& node) {
  std::ifstream file = open_matrix(path, node);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_text_matrix(text, fmt::format("'{}'", path), node);
}

}  // namespace tutti::graph
