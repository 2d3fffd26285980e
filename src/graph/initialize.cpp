// SPDX-License-Identifier: Apache-2.0
// Initialisers. Random ones run a 64-bit Mersenne twister of their own seed over the matrix in column-major order.
#include "graph/initialize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <random>

namespace tutti::graph {
namespace {

struct Fans {
  double in = 1, out = 1;
};

// The first initFilterRank axes are the filter; the rest splits into output axes (the first, or with a negative rank
// the last ones) and input axes.
Fans fans(const Node& node, const Shape& shape) {
  const auto rank = static_cast<long>(shape.rank());
  const long filter_rank = std::clamp(static_cast<long>(number(node, "initFilterRank", 0)), 0L, rank);
  const long output_rank = static_cast<long>(number(node, "initOutputRank", 1));
  double filter = 1, inputs = 1;
  for (long k = 0; k < filter_rank; ++k) filter *= static_cast<double>(shape[static_cast<std::size_t>(k)]);
  for (long k = filter_rank; k < rank; ++k) {
    const bool output = output_rank >= 0 ? k < filter_rank + output_rank : k >= rank + output_rank;
    if (!output) inputs *= static_cast<double>(shape[static_cast<std::size_t>(k)]);
  }
  const double fan_in = filter * inputs;
  return {fan_in, static_cast<double>(shape.elements()) * filter / fan_in};
}

// A draw as the original makes it: in single precision, 2^64 states onto [0, 1].
float unit(std::mt19937_64& engine) { return static_cast<float>(engine()) / 18446744073709551616.0f; }

void fill_uniform(std::span<float> values, double range, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto high = static_cast<float>(range), low = -high;
  for (float& v : values) {
    do v = unit(engine) * (high - low) + low;
    while (v >= high && high > low);
  }
}

// The polar method; each accepted pair gives two values.
void fill_normal(std::span<float> values, double deviation, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto sigma = static_cast<float>(deviation);
  for (std::size_t i = 0; i < values.size(); i += 2) {
    float a = 0, b = 0, q = 0;
    do {
      a = 2 * unit(engine) - 1;
      b = 2 * unit(engine) - 1;
      q = a * a + b * b;
    } while (q <= 0 || q >= 1);
    const float f = std::sqrt(-2 * std::log(q) / q);
    values[i] = f * a * sigma;
    if (i + 1 < values.size()) values[i + 1] = f * b * sigma;
  }
}

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return s;
}

void from_matrix(const Node& node, const TextMatrix& matrix, const Shape& shape, std::span<float> values) {
  const std::size_t rows = shape[0], columns = shape.elements() / std::max<std::size_t>(rows, 1);
  const bool fits = (matrix.rows == rows && matrix.columns == columns) ||
                    (columns == 1 && matrix.values.size() == rows);  // a vector may be written as one row
  if (!fits)
    throw ConfigError(node.where,
                      fmt::format("parameter '{}' {} is to be filled from a matrix of {} rows and {} columns",
                                  node.name, to_string(shape), matrix.rows, matrix.columns),
                      "write one matrix row per line, as many as the first dimension of the parameter");
  std::copy(matrix.values.begin(), matrix.values.end(), values.begin());
}

// A number for all elements, or an array with one for each.
void from_value(const Node& node, const std::string& attribute, const Shape& shape, std::span<float> values) {
  const auto found = node.attributes.find(attribute);
  const auto* array = found == node.attributes.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
  if (!array) {
    std::fill(values.begin(), values.end(), static_cast<float>(number(node, attribute, 0)));
  } else if (array->size() == 1) {
    std::fill(values.begin(), values.end(), static_cast<float>(array->front()));
  } else if (array->size() == values.size()) {
    std::transform(array->begin(), array->end(), values.begin(), [](double v) { return static_cast<float>(v); });
  } else {
    throw ConfigError(node.where,
                      fmt::format("parameter '{}' {} has {} elements but {} initial values", node.name,
                                  to_string(shape), values.size(), array->size()),
                      "give one value, or one for each element");
  }
}

// Every kernel of a deconvolution enlarges by linear interpolation in both directions.
void fill_bilinear(const Node& node, const Shape& shape, std::span<float> values) {
  const std::size_t width = shape[0];
  if (number(node, "initFilterRank", 0) != 2 || width != shape[1])
    throw ConfigError(node.where,
                      fmt::format("parameter '{}' {}: init = 'bilinear' needs square kernels on the first two axes",
                                  node.name, to_string(shape)),
                      "give initFilterRank=2 and a filter such as (4:4); DeconvLayer does so");
  const auto factor = static_cast<float>((width + 1) / 2);
  const float center = static_cast<float>(width - 1) / 2;
  const auto weight = [&](std::size_t i) { return 1 - std::abs(static_cast<float>(i) - center) / factor; };
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = weight(i % width) * weight(i / width % width);
}

// Rows or columns, whichever are fewer, are of length 1 and at right angles: normal draws, made so one after the other.
void fill_orthogonal(const Node& node, const Shape& shape, std::span<float> values) {
  const auto seed = static_cast<std::uint64_t>(number(node, "randomSeed", 1));
  fill_normal(values, 1, seed);
  const std::size_t rows = std::max<std::size_t>(shape[0], 1), columns = values.size() / rows;
  const bool by_rows = rows <= columns;
  const std::size_t count = by_rows ? rows : columns, length = by_rows ? columns : rows;
  const std::size_t apart = by_rows ? 1 : rows, step = by_rows ? rows : 1;  // of vectors, of their elements
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i)
      sum += static_cast<double>(values[a * apart + i * step]) * values[b * apart + i * step];
    return sum;
  };
  const auto gain = static_cast<float>(number(node, "initValueScale", 1));
  for (std::size_t v = 0; v < count; ++v) {
    for (int twice = 0; twice < 2; ++twice)  // the second time takes away what rounding has left
      for (std::size_t u = 0; u < v; ++u) {
        const auto part = static_cast<float>(dot(u, v));
        for (std::size_t i = 0; i < length; ++i) values[v * apart + i * step] -= part * values[u * apart + i * step];
      }
    const auto scale = static_cast<float>(1 / std::sqrt(dot(v, v)));
    for (std::size_t i = 0; i < length; ++i) values[v * apart + i * step] *= scale;
  }
  for (float& v : values) v *= gain;
}

struct Distribution {
  bool uniform;
  double (*width)(const Fans&);  // half the range, or the standard deviation
};

const std::map<std::string, Distribution>& distributions() {
  static const std::map<std::string, Distribution> table = {
      {"uniform", {true, [](const Fans&) { return 0.05; }}},
      {"xavier", {true, [](const Fans& f) { return std::sqrt(3 / f.in); }}},
      {"glorotuniform", {true, [](const Fans& f) { return std::sqrt(6 / (f.in + f.out)); }}},
      {"heuniform", {true, [](const Fans& f) { return std::sqrt(6 / f.in); }}},
      {"gaussian", {false, [](const Fans& f) { return 0.2 / std::sqrt(f.in); }}},
      {"normal", {false, [](const Fans&) { return 1.0; }}},
      {"glorotnormal", {false, [](const Fans& f) { return std::sqrt(2 / (f.in + f.out)); }}},
      {"henormal", {false, [](const Fans& f) { return std::sqrt(2 / f.in); }}},
  };
  return table;
}

// What fills the parameter when `init` is not given: a file, a value, a literal, else uniform.
std::string initializer(const Node& node) {
  std::string init = lower(text(node, "init"));
  if (!init.empty()) return init;
  if (!text(node, "initFromFilePath").empty()) return "fromfile";
  if (node.attributes.contains("initValue")) return "initvalue";
  if (!text(node, "initFromLiteral").empty()) return "fromliteral";
  return "uniform";
}

}  // namespace

void check_initializer(const Node& node) {
  if (node.start) return;
  const std::string init = initializer(node);
  if (init == "fromfile") open_matrix(text(node, "initFromFilePath"), node);
  static const std::vector<std::string> known = {
      "uniform",  "gaussian",   "normal", "xavier",   "glorotUniform", "glorotNormal", "heUniform",
      "heNormal", "fixedValue", "zero",   "bilinear", "orthogonal",    "fromFile",     "fromLiteral"};
  if (init == "initvalue" || std::any_of(known.begin(), known.end(), [&](const auto& k) { return lower(k) == init; }))
    return;
  const std::string near = nearest(init, known);
  throw ConfigError(
      node.where, fmt::format("parameter '{}': there is no initialiser '{}'", node.name, text(node, "init")),
      near.empty() ? fmt::format("use one of {}", fmt::join(known, ", ")) : fmt::format("did you mean '{}'?", near));
}

void start_from(const Node& node, const Shape& shape, std::span<float> values) {
  if (node.start->size() != values.size())
    throw ConfigError(node.where,
                      fmt::format("'{}' {} is loaded from a trained model, which has {} values for it", node.name,
                                  to_string(shape), node.start->size()),
                      "a loaded parameter keeps its dimensions; replace the layer with a new one to change them");
  std::copy(node.start->begin(), node.start->end(), values.begin());
}

void initialize(const Node& node, const Shape& shape, std::span<float> values) {
  if (node.start) return start_from(node, shape, values);
  check_initializer(node);
  const std::string init = initializer(node);
  const auto random = distributions().find(init);
  if (random != distributions().end()) {
    const double width = random->second.width(fans(node, shape)) * number(node, "initValueScale", 1);
    const auto seed = static_cast<std::uint64_t>(number(node, "randomSeed", 1));
    return random->second.uniform ? fill_uniform(values, width, seed) : fill_normal(values, width, seed);
  }
  if (init == "fromfile")
    return from_matrix(node, read_text_matrix(text(node, "initFromFilePath"), node), shape, values);
  if (init == "fromliteral")
    return from_matrix(node, parse_text_matrix(text(node, "initFromLiteral"), "the literal", node), shape, values);
  if (init == "bilinear") return fill_bilinear(node, shape, values);
  if (init == "orthogonal") return fill_orthogonal(node, shape, values);
  if (init == "zero") return std::fill(values.begin(), values.end(), 0.0f);
  from_value(node, init == "initvalue" ? "initValue" : "value", shape, values);
}

}  // namespace tutti::graph
