// SPDX-License-Identifier: Apache-2.0
// One shape rule per operation, in a table. Inference over a whole graph is in infer_graph.cpp.
#include "graph/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "graph/shape_rules.h"
#include "tutti/class_loss.h"

namespace tutti::graph {
namespace {

using Call = ShapeCall;
using Rule = Shape (*)(const Call&);

std::size_t rank_of(std::span<const Shape> shapes) {
  std::size_t rank = 0;
  for (const auto& s : shapes) rank = std::max(rank, s.rank());
  return rank;
}

Shape broadcast(const Call& c) {
  Shape out;
  out.dims.assign(rank_of(c.in), 1);
  for (std::size_t axis = 0; axis < out.rank(); ++axis)
    for (std::size_t i = 0; i < c.in.size(); ++i) {
      const std::size_t d = c.in[i][axis];
      if (d == 1 || d == out.dims[axis]) continue;
      if (out.dims[axis] == 1 || out.dims[axis] == 0) {
        out.dims[axis] = d;
      } else if (d != 0) {
        std::size_t other = 0;
        while (c.in[other][axis] != out.dims[axis]) ++other;
        c.fail(fmt::format("{} and {} do not fit: axis {} has {} and {} elements", c.operand(other), c.operand(i),
                           axis + 1, out.dims[axis], d),
               "give both operands the same dimensions, or 1 where one is to be repeated");
      }
    }
  return out;
}

Shape same(const Call& c) { return c.in[0]; }
Shape scalar(const Call&) { return Shape{{1}}; }

// Trailing axes of size 1 do not matter when samples are compared.
bool alike(const Shape& a, const Shape& b) {
  for (std::size_t axis = 0; axis < std::max(a.rank(), b.rank()); ++axis)
    if (a[axis] != b[axis] && a[axis] != 0 && b[axis] != 0) return false;
  return true;
}

Shape criterion(const Call& c) {
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    const bool weight = i == 2;  // WeightedLogistic: one weight per sample will do
    if (!alike(c.in[0], c.in[i]) && !(weight && c.in[i].elements() == 1))
      c.fail(
          fmt::format("{} and {} do not fit", c.operand(0), c.operand(i)),
          "labels and prediction need the same dimensions; check the label dimension and the size of the last layer");
  }
  return Shape{{1}};
}

std::size_t output_rank(const Call& c) {
  const double rank = number(c.node, "outputRank", 1);
  if (rank < 0 || rank > 8 || rank != std::floor(rank))
    c.fail(fmt::format("outputRank cannot be {}", rank), "outputRank is 1, 2, ...");
  return static_cast<std::size_t>(rank);
}

Shape times(const Call& c) {
  const std::size_t out_rank = output_rank(c);
  const Shape& a = c.in[0];
  const Shape& b = c.in[1];
  if (a.rank() < out_rank)
    c.fail(fmt::format("the left operand {} has fewer axes than outputRank = {}", c.operand(0), out_rank),
           "the left operand of a product has the output axes first and then those it sums over");
  const std::size_t inner = a.rank() - out_rank;
  for (std::size_t k = 0; k < inner; ++k)
    if (a[out_rank + k] != b[k] && a[out_rank + k] != 0 && b[k] != 0)
      c.fail(fmt::format("{} and {} do not fit: axis {} of the left has {} elements and axis {} of the right has {}",
                         c.operand(0), c.operand(1), out_rank + k + 1, a[out_rank + k], k + 1, b[k]),
             "the axes that a product sums over must agree; a weight dimension of 0 is inferred");
  Shape out;
  for (std::size_t k = 0; k < out_rank; ++k) out.dims.push_back(a[k]);
  for (std::size_t k = inner; k < b.rank(); ++k) out.dims.push_back(b[k]);
  if (out.dims.empty()) out.dims.push_back(1);
  return out;
}

Shape transpose_times(const Call& c) {
  if (c.in[0].rank() > 2)
    c.fail(fmt::format("the left operand {} has more than two axes", c.operand(0)), "reshape it to a matrix first");
  if (output_rank(c) != 1) c.fail("outputRank must be 1", "use Times with a transposed weight for other ranks");
  if (c.in[0][0] != c.in[1][0] && c.in[0][0] != 0 && c.in[1][0] != 0)
    c.fail(fmt::format("{} and {} do not fit: the first axes have {} and {} elements", c.operand(0), c.operand(1),
                       c.in[0][0], c.in[1][0]),
           "TransposeTimes sums over the first axis of both operands");
  Shape out{{c.in[0][1]}};
  for (std::size_t k = 1; k < c.in[1].rank(); ++k) out.dims.push_back(c.in[1][k]);
  return out;
}

Shape diag_times(const Call& c) {
  const Shape& v = c.in[0];
  if (v.elements() != v[0] || (v[0] != c.in[1][0] && v[0] != 0 && c.in[1][0] != 0))
    c.fail(fmt::format("{} and {} do not fit", c.operand(0), c.operand(1)),
           "the left operand is a vector with one element for each row of the right one");
  return c.in[1];
}

Shape khatri_rao(const Call& c) { return Shape{{c.in[0].elements() * c.in[1].elements()}}; }

Shape softmax(const Call& c) {
  if (number(c.node, "axis", 0) != 0) axis_index(c.node, "axis", 0, c.in[0].rank());
  return c.in[0];
}

Shape softmax_criterion(const Call& c) {
  if (number(c.node, "axis", 0) != 0) axis_index(c.node, "axis", 0, c.in[1].rank());
  const double top = number(c.node, "topN", 1);
  if (top < 1 || top != std::floor(top)) c.fail(fmt::format("topN cannot be {}", top), "topN is 1, 2, ...");
  return criterion(c);
}

Shape class_criterion(const Call& c) {
  const Shape &label = c.in[0], &z = c.in[1], &w = c.in[2], &scores = c.in[3];
  if (label.elements() != ClassLoss::label_floats)
    c.fail(fmt::format("the labels {} do not have 4 rows", c.operand(0)),
           "rows are word, class, first word of the class, first word behind it, as LMSequenceReader makes them");
  if (w.rank() != 2 || z.elements() != w[0])
    c.fail(fmt::format("{} and {} do not fit", c.operand(1), c.operand(2)),
           "the weight is [size of the layer x words], one column for each word");
  if (scores.elements() > w[1])
    c.fail(fmt::format("{} has more classes than {} has words", c.operand(3), c.operand(2)),
           "each class has at least one word");
  return Shape{{1}};
}

Shape lookup_table(const Call& c) {
  const Shape &w = c.in[0], &x = c.in[1];
  if (w.rank() != 2 || w[1] == 0 || x.elements() % w[1] != 0)
    c.fail(fmt::format("{} and {} do not fit", c.operand(0), c.operand(1)),
           "the table is [size of a vector x words]; the input has one one-hot vector of all words, or several");
  return Shape{{w[0] * (x.elements() / w[1])}};
}

Shape cos_distance(const Call& c) {
  criterion(c);
  return Shape{{1}};
}

Shape reduce(const Call& c) {
  static const std::vector<std::string> known = {"Sum", "LogSum", "Mean", "Min", "Max"};
  const std::string op = text(c.node, "op", "Sum");
  if (std::find(known.begin(), known.end(), op) == known.end())
    c.fail(fmt::format("there is no reduction '{}'", op), "use Sum, LogSum, Mean, Min or Max");
  if (number(c.node, "axis", 0) == 0) return Shape{{1}};
  Shape out = c.in[0];
  out.dims[axis_index(c.node, "axis", 0, out.rank())] = 1;
  return out;
}

Shape slice(const Call& c) {
  if (is_time_slice(c.node)) return c.in[0];
  Shape out = c.in[0];
  const std::size_t axis = axis_index(c.node, "axis", 1, out.rank());
  const Range range = slice_range(c.node, out.dims[axis]);
  out.dims[axis] = range.last - range.first;
  return out;
}

Shape row_stack(const Call& c) {
  const std::size_t rank = rank_of(c.in);
  const double wanted = number(c.node, "axis", 1);
  // One axis beyond the last is allowed: it stacks samples into a new axis.
  const std::size_t axis = wanted == static_cast<double>(rank + 1) ? rank : axis_index(c.node, "axis", 1, rank);
  Shape out = c.in[0];
  out.dims.resize(std::max(rank, axis + 1), 1);
  std::vector<std::size_t> giver(out.rank(), 0);  // whose dimension the axis has
  for (std::size_t i = 1; i < c.in.size(); ++i)
    for (std::size_t k = 0; k < out.rank(); ++k) {
      const std::size_t d = c.in[i][k];
      if (k == axis)
        out.dims[k] += d;
      else if (out.dims[k] == 1)
        out.dims[k] = d, giver[k] = i;
      else if (d != 1 && out.dims[k] != d)
        c.fail(fmt::format("{} and {} do not fit: axis {} has {} and {} elements", c.operand(giver[k]), c.operand(i),
                           k + 1, out.dims[k], d),
               fmt::format("all axes but the stacked one (axis = {}) must agree, or have 1 element, which is repeated",
                           axis + 1));
    }
  return out;
}

Shape row_repeat(const Call& c) {
  const double repeats = number(c.node, "numRepeats", 1);
  if (repeats < 1 || repeats != std::floor(repeats))
    c.fail(fmt::format("numRepeats cannot be {}", repeats), "numRepeats is 1, 2, ...");
  Shape out = c.in[0];
  if (out.dims.empty()) out.dims.push_back(1);
  out.dims.back() *= static_cast<std::size_t>(repeats);
  return out;
}

Shape reshape(const Call& c) {
  const auto rank = static_cast<double>(c.in[0].rank());
  const auto place = [&](const char* name, double zero) {
    const double axis = number(c.node, name, 0);
    const double index = axis > 0 ? axis - 1 : axis == 0 ? zero : rank + axis;
    if (index < 0 || index > rank)
      c.fail(fmt::format("{} = {} is outside of {}", name, axis, c.operand(0)),
             "axes count from 1, negative ones from the end");
    return static_cast<std::size_t>(index);
  };
  const std::size_t begin = place("beginAxis", 0), end = place("endAxis", rank);
  if (begin > end) c.fail("beginAxis lies behind endAxis", "endAxis is the axis behind the last one replaced");
  std::size_t replaced = 1, given = 1, unknown = 0;
  for (std::size_t k = begin; k < end; ++k) replaced *= c.in[0][k];
  Shape fresh = declared_shape(c.node);
  for (const auto d : fresh.dims) d == 0 ? ++unknown : given *= d;
  if (unknown > 1) c.fail("at most one dimension may be 0 (inferred)", "write the other dimensions out");
  if (replaced == 0) return fresh;
  if (unknown == 1 ? replaced % given != 0 : replaced != given)
    c.fail(fmt::format("{} has {} elements on these axes, which cannot become {}", c.operand(0), replaced,
                       to_string(fresh)),
           "the number of elements must stay the same");
  for (auto& d : fresh.dims)
    if (d == 0) d = replaced / given;
  Shape out;
  out.dims.assign(c.in[0].dims.begin(), c.in[0].dims.begin() + static_cast<long>(begin));
  out.dims.insert(out.dims.end(), fresh.dims.begin(), fresh.dims.end());
  out.dims.insert(out.dims.end(), c.in[0].dims.begin() + static_cast<long>(end), c.in[0].dims.end());
  return out;
}

Shape transpose(const Call& c) {
  Shape out = c.in[0];
  const auto top = static_cast<std::size_t>(std::max({number(c.node, "axis1", 1), number(c.node, "axis2", 2), 1.0}));
  if (out.rank() < top && top <= 2) out.dims.resize(top, 1);  // a vector is a matrix with one column
  std::swap(out.dims[axis_index(c.node, "axis1", 1, out.rank())], out.dims[axis_index(c.node, "axis2", 2, out.rank())]);
  return out;
}

Shape normalization(const Call& c) {
  if (!alike(c.in[0], c.in[1]) || !alike(c.in[0], c.in[2]))
    c.fail(fmt::format("{}, {} and {} do not fit", c.operand(0), c.operand(1), c.operand(2)),
           "mean and deviation need the dimensions of the data");
  return c.in[0];
}

Shape dropout(const Call& c) {
  const double rate = number(c.node, "rate", 0);
  if (!(rate >= 0 && rate < 1)) c.fail(fmt::format("rate cannot be {}", rate), "a rate is in [0, 1)");
  return c.in[0];
}

Shape leaf(const Call& c) { return declared_shape(c.node); }

// Each rule with its operations.
const std::map<std::string, Rule> rules = [] {
  const std::pair<Rule, const char*> table[] = {
      {leaf, "InputValue LearnableParameter"},
      {times, "Times"},
      {transpose_times, "TransposeTimes"},
      {diag_times, "DiagTimes"},
      {broadcast, "ElementTimes Plus Minus LogPlus Less Equal Greater GreaterEqual NotEqual LessEqual If Clip"},
      {khatri_rao, "KhatriRaoProduct"},
      {lookup_table, "LookupTable"},
      {same,
       "Negate Reciprocal Sigmoid Tanh RectifiedLinear Exp Log Sqrt Abs Floor Ceil Round Sin Cosine Pass "
       "Trace TimeReverse ReconcileDynamicAxis Mean InvStdDev"},
      {softmax, "Softmax LogSoftmax Hardmax"},
      {softmax_criterion, "CrossEntropyWithSoftmax ClassificationError"},
      {criterion, "CrossEntropy SquareError Logistic WeightedLogistic"},
      {class_criterion, "ClassBasedCrossEntropyWithSoftmax"},
      {scalar, "MatrixL1Reg MatrixL2Reg SumElements SumColumnElements ZeroSequence"},
      {cos_distance, "CosDistance"},
      {negative_samples_shape, "CosDistanceWithNegativeSamples"},
      {ranking_shape, "LambdaRank NDCG1Eval"},
      {reduce, "ReduceElements"},
      {slice, "Slice"},
      {row_stack, "RowStack"},
      {row_repeat, "RowRepeat"},
      {reshape, "Reshape"},
      {transpose, "TransposeDimensions"},
      {delay_shape, "PastValue FutureValue"},
      {lstm_shape, "LSTM"},
      {gru_shape, "GRU"},
      {where_shape, "Where"},
      {packed_index_shape, "PackedIndex"},
      {gather_shape, "GatherPacked BroadcastSequenceAs"},
      {scatter_shape, "ScatterPacked"},
      {dropout, "Dropout"},
      {normalization, "PerDimMeanVarNormalization PerDimMeanVarDeNormalization"},
      {convolution_shape, "Convolution"},
      {pooling_shape, "Pooling"},
      {unpooling_shape, "MaxUnpooling"},
      {roi_pooling_shape, "ROIPooling"},
      {batch_normalization_shape, "BatchNormalization"},
      {response_normalization_shape, "LocalResponseNormalization"},
  };
  std::map<std::string, Rule> by_operation;
  for (const auto& [rule, operations] : table) {
    std::istringstream in(operations);
    for (std::string operation; in >> operation;) by_operation[operation] = rule;
  }
  return by_operation;
}();

}  // namespace

Shape declared_shape(const Node& node) {
  Shape shape;
  for (const double d : numbers(node, "dims")) {
    if (d < 0 || d != std::floor(d) || d > 1e12)
      throw ConfigError(node.where, fmt::format("{} '{}': a dimension cannot be {}", node.operation, node.name, d),
                        "dimensions are whole numbers from 1, or 0 to infer them");
    shape.dims.push_back(static_cast<std::size_t>(d));
  }
  return shape;
}

std::size_t axis_index(const Node& node, const std::string& attribute, double otherwise, std::size_t rank) {
  const double axis = number(node, attribute, otherwise);
  const double index = axis > 0 ? axis - 1 : static_cast<double>(rank) + axis;
  if (axis == 0 || index < 0 || index >= static_cast<double>(rank) || axis != std::floor(axis))
    throw ConfigError(node.where,
                      fmt::format("{} '{}': {} = {} is not one of the {} axes of the input", node.operation, node.name,
                                  attribute, axis, rank),
                      "axes count from 1, negative ones from the end");
  return static_cast<std::size_t>(index);
}

Range slice_range(const Node& node, std::size_t dim) {
  const auto n = static_cast<double>(dim);
  const double begin = number(node, "begin", 0), end = number(node, "end", 0);
  const double first = begin < 0 ? begin + n : begin;
  const double last = end <= 0 ? end + n : end;
  if (first < 0 || last > n || first >= last)
    throw ConfigError(
        node.where,
        fmt::format("Slice '{}': [{}, {}) is not a part of an axis with {} elements", node.name, begin, end, dim),
        "begin counts from 0, end is the element behind the last; negative values count from the end");
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

int axis_giver(const std::string& operation) {
  static const std::map<std::string, int> givers = {
      {"PastValue", 0},   {"FutureValue", 0},   {"PackedIndex", 1},          {"GatherPacked", 0},
      {"TimeReverse", 0}, {"ScatterPacked", 0}, {"ReconcileDynamicAxis", 1}, {"BroadcastSequenceAs", 0}};
  const auto found = givers.find(operation);
  return found == givers.end() ? -1 : found->second;
}

bool is_time_slice(const Node& node) { return node.operation == "Slice" && number(node, "axis", 1) == -1; }
bool makes_axis(const Node& node) { return node.operation == "Where" || is_time_slice(node); }

bool keeps_sample_axis(const Node& node) {
  static const std::vector<std::string> over_samples = {"LearnableParameter",
                                                        "CrossEntropyWithSoftmax",
                                                        "ClassificationError",
                                                        "CrossEntropy",
                                                        "SquareError",
                                                        "Logistic",
                                                        "WeightedLogistic",
                                                        "LambdaRank",
                                                        "NDCG1Eval",
                                                        "ClassBasedCrossEntropyWithSoftmax",
                                                        "MatrixL1Reg",
                                                        "MatrixL2Reg",
                                                        "SumElements",
                                                        "Mean",
                                                        "InvStdDev"};
  return std::find(over_samples.begin(), over_samples.end(), node.operation) == over_samples.end();
}

Shape infer_shape(const Node& node, std::span<const Shape> inputs, std::span<const std::string> names) {
  const OperationInfo* info = find_operation(node.operation);
  if (!info) {
    const std::string near = nearest(node.operation, operation_names());
    throw ConfigError(node.where, fmt::format("there is no operation '{}' (node '{}')", node.operation, node.name),
                      near.empty() ? "" : fmt::format("did you mean '{}'?", near));
  }
  const auto count = static_cast<int>(inputs.size());
  if (count < info->min_inputs || (info->max_inputs >= 0 && count > info->max_inputs))
    throw ConfigError(node.where,
                      fmt::format("{} '{}' has {} inputs but takes {}{}", node.operation, node.name, count,
                                  info->min_inputs, info->max_inputs < 0 ? " or more" : ""),
                      "");
  return rules.at(node.operation)(Call{node, inputs, names});
}

Shape infer_operand(const Node& node, std::size_t operand, std::span<const Shape> inputs) {
  Shape shape = inputs[operand];
  const bool unknown = std::find(shape.dims.begin(), shape.dims.end(), std::size_t{0}) != shape.dims.end();
  if (!unknown || inputs.size() < 2) return shape;
  if (const auto image = infer_image_operand(node, operand, inputs)) return *image;
  const Shape& other = inputs[1 - std::min<std::size_t>(operand, 1)];
  if (node.operation == "Times" && operand == 0) {
    const auto out_rank = static_cast<std::size_t>(number(node, "outputRank", 1));
    const double mapped = number(node, "inferInputRankToMap", -1);
    if (mapped >= 0 && shape.dims.back() == 0)
      while (static_cast<double>(shape.rank()) - static_cast<double>(out_rank) + mapped <
             static_cast<double>(other.rank()))
        shape.dims.push_back(0);
    for (std::size_t k = out_rank; k < shape.rank(); ++k)
      if (shape.dims[k] == 0) shape.dims[k] = other[k - out_rank];
  } else if (node.operation == "TransposeTimes" && operand == 0) {
    if (shape.dims[0] == 0) shape.dims[0] = other[0];
  } else if ((node.operation == "PastValue" || node.operation == "FutureValue") && operand == 1) {
    if (shape.rank() == 1 && other.elements() != 0) shape.dims[0] = other.elements();
  } else if (node.operation == "DiagTimes" && operand == 0) {
    if (shape.dims[0] == 0) shape.dims[0] = other[0];
  } else if (rules.at(node.operation) == broadcast || rules.at(node.operation) == criterion) {
    for (std::size_t k = 0; k < shape.rank(); ++k)
      if (shape.dims[k] == 0) shape.dims[k] = other[k];
  }
  return shape;
}

}  // namespace tutti::graph
