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

#include "graph/shapes.h"

namespace tutti::graph {
namespace {

// The first initFilterRank axes are the filter; the rest splits into output axes (the first, or with a negative rank
// the last ones) and input axes.
struct Sizes {
  std::size_t filter = 1, inputs = 1, outputs = 1;
  bool outputs_last = false;
};

Sizes sizes(const Node& node, const Shape& shape) {
  const auto rank = static_cast<long>(shape.rank());
  const long filter_rank = std::clamp(static_cast<long>(number(node, "initFilterRank", 0)), 0L, rank);
  const long output_rank = static_cast<long>(number(node, "initOutputRank", 1));
  Sizes s;
  s.outputs_last = output_rank < 0;
  for (long k = 0; k < rank; ++k) {
    const bool output = s.outputs_last ? k >= rank + output_rank : k < filter_rank + output_rank;
    (k < filter_rank ? s.filter : output ? s.outputs : s.inputs) *= shape[static_cast<std::size_t>(k)];
  }
  return s;
}

struct Fans {
  double in = 1, out = 1;
};

Fans fans(const Node& node, const Shape& shape) {
  const Sizes s = sizes(node, shape);
  const double filter = static_cast<double>(s.filter), fan_in = filter * static_cast<double>(s.inputs);
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

void check_size(const Node& node, const MatrixSize& matrix, const Shape& shape) {
  const std::size_t rows = shape[0], columns = shape.elements() / std::max<std::size_t>(rows, 1);
  const bool fits = (matrix.rows == rows && matrix.columns == columns) ||
                    (columns == 1 && matrix.rows * matrix.columns == rows);  // a vector may be written as one row
  if (!fits)
    throw ConfigError(node.where,
                      fmt::format("parameter '{}' {} is to be filled from a matrix of {} rows and {} columns",
                                  node.name, to_string(shape), matrix.rows, matrix.columns),
                      "write one matrix row per line, as many as the first dimension of the parameter");
}

void from_matrix(const Node& node, const TextMatrix& matrix, const Shape& shape, std::span<float> values) {
  check_size(node, matrix, shape);
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
  const double rank = number(node, "initFilterRank", 0);
  if ((rank != 0 && rank != 2) || width != shape[1])
    throw ConfigError(node.where,
                      fmt::format("parameter '{}' {}: init = 'bilinear' needs square kernels on the first two axes",
                                  node.name, to_string(shape)),
                      "give a square filter such as (4:4); initFilterRank is 2 or left out");
  const std::size_t area = width * width, channels = shape.rank() > 2 ? shape[2] : 1;
  if (values.size() != area * channels * channels)
    throw ConfigError(
        node.where,
        fmt::format("parameter '{}' {}: init = 'bilinear' needs as many channels in as out, each of which "
                    "is interpolated by itself",
                    node.name, to_string(shape)),
        "the same number of channels on both sides, or another init");
  const auto factor = static_cast<float>((width + 1) / 2);
  const float center = static_cast<float>(width - 1) / 2;
  const auto weight = [&](std::size_t i) { return 1 - std::abs(static_cast<float>(i) - center) / factor; };
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i / area % channels == i / area / channels ? weight(i % width) * weight(i / width % width) : 0;
}

// Makes the vectors, which stand one after the other, of length 1 and at right angles.
void orthogonalize(std::span<float> vectors, std::size_t length) {
  const auto dot = [&](const float* a, const float* b) {
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  };
  for (std::size_t v = 0; v + length <= vectors.size(); v += length) {
    float* const fresh = vectors.data() + v;
    for (int twice = 0; twice < 2; ++twice)  // the second time takes away what rounding has left
      for (std::size_t u = 0; u < v; u += length) {
        const float* const before = vectors.data() + u;
        const auto part = static_cast<float>(dot(before, fresh));
        for (std::size_t i = 0; i < length; ++i) fresh[i] -= part * before[i];
      }
    const auto scale = static_cast<float>(1 / std::sqrt(dot(fresh, fresh)));
    for (std::size_t i = 0; i < length; ++i) fresh[i] *= scale;
  }
}

// Of the matrix [outputs x (filter and inputs)], rows or columns, whichever are fewer, are orthonormal.
void fill_orthogonal(const Node& node, const Shape& shape, std::span<float> values) {
  const auto seed = static_cast<std::uint64_t>(number(node, "randomSeed", 1));
  fill_normal(values, 1, seed);
  const Sizes s = sizes(node, shape);
  const std::size_t rows = s.outputs, columns = s.filter * s.inputs, count = std::min(rows, columns);
  if (count == 0) return;
  const std::size_t length = values.size() / count, in_front = s.outputs_last ? columns : s.filter;
  const auto place = [&](std::size_t v, std::size_t i) {
    const std::size_t row = rows <= columns ? v : i, column = rows <= columns ? i : v;
    return column % in_front + in_front * (row + rows * (column / in_front));
  };
  std::vector<float> vectors(values.size());
  for (std::size_t k = 0; k < vectors.size(); ++k) vectors[k] = values[place(k / length, k % length)];
  orthogonalize(vectors, length);
  const auto gain = static_cast<float>(number(node, "initValueScale", 1));
  for (std::size_t k = 0; k < vectors.size(); ++k) values[place(k / length, k % length)] = vectors[k] * gain;
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

void check_name(const Node& node, const std::string& init) {
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

TextMatrix literal_of(const Node& node) {
  return parse_text_matrix(text(node, "initFromLiteral"), "the literal", node);
}

}  // namespace

void check_initializer(const Node& node) {
  if (node.start) return;
  const std::string init = initializer(node);
  check_name(node, init);
  const Shape shape = declared_shape(node);
  if (init == "fromfile") check_size(node, text_matrix_size(text(node, "initFromFilePath"), node), shape);
  if (init == "fromliteral") check_size(node, literal_of(node), shape);
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
  const std::string init = initializer(node);
  check_name(node, init);
  const auto random = distributions().find(init);
  if (random != distributions().end()) {
    const double width = random->second.width(fans(node, shape)) * number(node, "initValueScale", 1);
    const auto seed = static_cast<std::uint64_t>(number(node, "randomSeed", 1));
    return random->second.uniform ? fill_uniform(values, width, seed) : fill_normal(values, width, seed);
  }
  if (init == "fromfile")
    return from_matrix(node, read_text_matrix(text(node, "initFromFilePath"), node), shape, values);
  if (init == "fromliteral") return from_matrix(node, literal_of(node), shape, values);
  if (init == "bilinear") return fill_bilinear(node, shape, values);
  if (init == "orthogonal") return fill_orthogonal(node, shape, values);
  if (init == "zero") return std::fill(values.begin(), values.end(), 0.0f);
  from_value(node, init == "initvalue" ? "initValue" : "value", shape, values);
}

}  // namespace tutti::graph
