// SPDX-License-Identifier: Apache-2.0
// The operations of graphs in a table: numbers of inputs, attributes, shape rule, sample axis. Builders check calls
// against it; the kernel lists have one entry for each operation that is not lowered to others. Inference over a whole
// graph is in infer_graph.cpp.
#include "graph/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "graph/shape_rules.h"
#include "tutti/class_loss.h"
#include "tutti/tensor_ops.h"

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

std::size_t output_rank(const Call& c) { return whole_number(c, "outputRank", 0, 8); }

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
  whole_number(c, "topN");
  return criterion(c);
}

Shape class_metric(const Call& c) {
  const std::size_t classes = c.in[1].elements(), wanted = whole_number(c, "class", 0);
  if (classes > 0 && (classes < 2 || wanted >= classes))
    c.fail(fmt::format("class = {} of {}", wanted, c.operand(1)),
           classes < 2 ? "the predictions need an element for each of two or more classes"
                       : fmt::format("classes count from 0 to {}", classes - 1));
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

// As criteria, but nothing is inferred from the other operand.
Shape cos_distance(const Call& c) { return criterion(c); }

Shape reduce(const Call& c) {
  static const std::set<std::string> known = {"Sum", "LogSum", "Mean", "Min", "Max"};
  const std::string op = text(c.node, "op", "Sum");
  if (!known.contains(op)) c.fail(fmt::format("there is no reduction '{}'", op), "use Sum, LogSum, Mean, Min or Max");
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
  // An axis beyond the last is a new one; those between have one element.
  const double wanted = number(c.node, "axis", 1), most = static_cast<double>(Layout::max_rank - 1);
  const std::size_t highest = wanted > 0 ? static_cast<std::size_t>(std::min(wanted, most)) : 0;
  const std::size_t axis = axis_index(c.node, "axis", 1, std::max(rank, highest));
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
  const std::size_t repeats = whole_number(c, "numRepeats");
  Shape out = c.in[0];
  if (out.dims.empty()) out.dims.push_back(1);
  out.dims.back() *= repeats;
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

// What results have besides their shape.
enum Facts : unsigned {
  over_samples = 1,  // criteria and corpus statistics: no sample axis
  side_by_side = 2,  // walks through its operands together: all or none of them have a value per sample
  sums = 4           // a sum over samples
};
constexpr unsigned of_criterion = over_samples | side_by_side | sums;
constexpr int any = -1;

struct Operation : OperationInfo {
  Rule rule;
  unsigned facts;
  std::string_view operands;
};

struct Row {
  const char* names;
  int min_inputs, max_inputs;
  Rule rule;
  unsigned facts = 0;
  // By input: s = a value per sample, a = the same and its dynamic axis is that of the result (else all share one),
  // 1 = one value for all samples; either where nothing or a dot stands.
  const char* operands = "";
};

// Attributes follow the names; each has a default unless the builder must give it.
const Row rows[] = {
    // Leaves.
    {"InputValue", 0, 0, leaf},  // dims, sparse, dynamicAxis
    // dims, init, initValueScale, value, randomSeed, learningRateMultiplier, ...
    {"LearnableParameter", 0, 0, leaf, over_samples},
    // Products.
    {"Times", 2, 2, times},  // outputRank=1, inferInputRankToMap=-1
    {"TransposeTimes", 2, 2, transpose_times},
    {"DiagTimes", 2, 2, diag_times},
    {"ElementTimes", 2, 2, broadcast},
    {"KhatriRaoProduct", 2, 2, khatri_rao},
    {"LookupTable", 2, 2, lookup_table},  // W, one or several one-hot vectors
    // Elementwise with broadcasting.
    {"Plus Minus LogPlus Less Equal Greater GreaterEqual NotEqual LessEqual", 2, 2, broadcast},
    {"If", 3, 3, broadcast},    // condition, then, else
    {"Clip", 3, 3, broadcast},  // minimum, maximum, value
    // Pointwise.
    {"Negate Reciprocal Sigmoid Tanh RectifiedLinear Exp Log Sqrt Abs Floor Ceil Round Sin Cosine Pass", 1, 1, same},
    {"Trace", 1, 1, same},  // Pass whose values the log shows; say, logFrequency, logFirst, onlyUpToRow, onlyUpToT
    // Softmax family; axis=0 is the whole sample.
    {"Softmax LogSoftmax Hardmax", 1, 1, softmax},
    // Criteria.
    {"CrossEntropyWithSoftmax", 2, 2, softmax_criterion, of_criterion},  // labels, z; axis=0
    {"ClassificationError", 2, 2, softmax_criterion, of_criterion},      // labels, z; topN=1, axis=0
    {"Precision Recall F1Score", 2, 2, class_metric, of_criterion},      // labels, z; class=1
    {"CrossEntropy", 2, 2, criterion, of_criterion},                     // labels, probabilities
    {"SquareError", 2, 2, criterion, of_criterion},
    {"Logistic", 2, 2, criterion, of_criterion},          // label, probability
    {"WeightedLogistic", 3, 3, criterion, of_criterion},  // label, probability, weight
    {"ClassBasedCrossEntropyWithSoftmax", 4, 4, class_criterion, over_samples | sums, "ss1s"},  // label, z, W, scores
    {"MatrixL1Reg", 1, 1, scalar, over_samples | sums},
    {"MatrixL2Reg", 1, 1, scalar, over_samples},
    {"CosDistance", 2, 2, cos_distance},
    {"CosDistanceWithNegativeSamples", 2, 2, negative_samples_shape, 0, "ss"},   // a, b; shift=1, negatives=1
    {"LambdaRank NDCG1Eval", 3, 3, ranking_shape, over_samples | side_by_side},  // gain, score, query
    // Reductions.
    {"SumElements", 1, 1, scalar, over_samples | sums},  // over everything, also the samples
    {"SumColumnElements", 1, 1, scalar},
    {"ReduceElements", 1, 1, reduce},  // op, axis=0
    // Shape.
    {"Slice", 1, 1, slice},                    // begin, end, axis=1
    {"RowStack", 1, any, row_stack},           // axis=1
    {"RowRepeat", 1, 1, row_repeat},           // numRepeats
    {"Reshape", 1, 1, reshape},                // dims, beginAxis=0, endAxis=0
    {"TransposeDimensions", 1, 1, transpose},  // axis1, axis2
    // Images [W, H, C]; lists of one element stand for all axes.
    // W, x; kernelDims, mapDims, stride=1, sharing=true, autoPadding=0, lowerPad=0, upperPad=0, transpose=false,
    // outputShape, groups=1, imageLayout="CHW"
    {"Convolution", 2, 2, convolution_shape, 0, "1."},
    {"Pooling", 1, 1, pooling_shape},  // poolingType="max", kernelDims, stride=1, autoPadding=0, lowerPad=0, ...
    {"MaxUnpooling", 2, 2, unpooling_shape, side_by_side},  // values, pooled image; the window as for Pooling
    {"ROIPooling", 2, 2, roi_pooling_shape, side_by_side},  // image, regions [4, number]; shape, spatialScale
    // x, scale, bias, running mean, running variance; spatial=false, normalizationTimeConstant=0, blendTimeConstant=0,
    // epsilon=1e-5
    {"BatchNormalization", 5, 5, batch_normalization_shape, 0, ".1111"},
    {"LocalResponseNormalization", 1, 1, response_normalization_shape},  // depthRadius, bias=1, alpha=1, beta=0.75
    // Time. The input of a delay may be created after the delay: that is how loops are written.
    // dims, timeStep=1, defaultHiddenActivation=0.1; x, initial state
    {"PastValue FutureValue", 1, 2, delay_shape, 0, "a"},
    // W x + b [4c], H [4c : c], initial h and c if trained; backwards=false, defaultHiddenActivation=0.1
    {"LSTM", 2, 4, lstm_shape, 0, "a111"},
    // W x + b [3c], H [3c : c], a bias of H's product with resetAfter=true; resetAfter=false, backwards=false,
    // defaultHiddenActivation=0.1
    {"GRU", 2, 3, gru_shape, 0, "a11"},
    {"TimeReverse", 1, 1, same, 0, "a"},
    // Dynamic axes.
    {"Where", 1, 1, where_shape},                          // frames where the condition is not 0; a new axis
    {"PackedIndex", 2, 2, packed_index_shape, 0, "sa"},    // layout of, frames from Where
    {"GatherPacked", 2, 2, gather_shape, 0, "as"},         // index, source
    {"ScatterPacked", 3, 3, scatter_shape, 0, "ass"},      // layout of, index, source
    {"ReconcileDynamicAxis", 2, 2, same, 0, "sa"},         // data, layout of
    {"ZeroSequence", 1, 1, scalar},                        // 0 for every step of the input's axis
    {"BroadcastSequenceAs", 2, 2, gather_shape, 0, "as"},  // layout of, sequences of length 1
    // Training and corpus statistics.
    {"Dropout", 1, 1, dropout},  // rate: instead of the epoch's
    {"Mean InvStdDev", 1, 1, same, over_samples, "s"},
    {"PerDimMeanVarNormalization PerDimMeanVarDeNormalization", 3, 3, normalization},  // x, mean, 1/deviation
};

const std::vector<Operation> operations = [] {
  std::vector<Operation> all;
  for (const Row& r : rows) {
    std::istringstream in(r.names);
    for (std::string name; in >> name;)
      all.push_back({{name, r.min_inputs, r.max_inputs}, r.rule, r.facts, r.operands});
  }
  return all;
}();

const Operation* find(const std::string& name) {
  const auto found = std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.name == name; });
  return found == operations.end() ? nullptr : &*found;
}
bool has(const Node& node, Facts fact) {
  const Operation* o = find(node.operation);
  return o && (o->facts & fact) != 0;
}

}  // namespace

const OperationInfo* find_operation(const std::string& name) { return find(name); }

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& o : operations) names.push_back(o.name);
  return names;
}

char operand_kind(const Node& node, std::size_t operand) {
  const Operation* o = find(node.operation);
  return o && operand < o->operands.size() ? o->operands[operand] : '.';
}

bool is_time_slice(const Node& node) { return node.operation == "Slice" && number(node, "axis", 1) == -1; }
bool makes_axis(const Node& node) { return node.operation == "Where" || is_time_slice(node); }

bool keeps_sample_axis(const Node& node) { return !has(node, over_samples); }
bool goes_side_by_side(const Node& node) { return has(node, side_by_side); }
bool sums_over_samples(const Node& node) { return has(node, sums); }

Shape infer_shape(const Node& node, std::span<const Shape> inputs, std::span<const std::string> names) {
  const Operation* info = find(node.operation);
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
  return info->rule(Call{node, inputs, names});
}

Shape infer_operand(const Node& node, std::size_t operand, std::span<const Shape> inputs) {
  Shape shape = inputs[operand];
  if (!has_unknown(shape) || inputs.size() < 2) return shape;
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
  } else if ((node.operation == "TransposeTimes" || node.operation == "DiagTimes") && operand == 0) {
    if (shape.dims[0] == 0) shape.dims[0] = other[0];
  } else if (find(node.operation)->rule == delay_shape && operand == 1) {
    if (shape.rank() == 1 && other.elements() != 0) shape.dims[0] = other.elements();
  } else if (const Rule rule = find(node.operation)->rule; rule == broadcast || rule == criterion) {
    return filled(shape, other);
  }
  return shape;
}

}  // namespace tutti::graph
