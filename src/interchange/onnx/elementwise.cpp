// SPDX-License-Identifier: Apache-2.0
// Maps, sums and products of elements, comparisons, the softmax family and reductions along an axis of the sample.
#include <algorithm>
#include <limits>

#include "interchange/onnx/node_export.h"

namespace tutti::interchange {
namespace {

// What the logarithm of 0 and of negative numbers is here.
constexpr float log_of_zero = -85.1f;

std::string same_value(NodeExport& n) { return n.in[0].name; }

template <const char* const& type>
std::string map_elements(NodeExport& n) {
  return n.op(type, {n.in[0].name});
}

template <const char* const& type>
std::string combine_elements(NodeExport& n) {
  return n.op(type, {n.aligned(0), n.aligned(1)});
}

// Comparisons give 0 or 1 as floats.
std::string as_float(NodeExport& n, const std::string& truth) {
  return n.op("Cast", {truth}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
}
template <const char* const& type>
std::string compare_elements(NodeExport& n) {
  return as_float(n, n.op(type, {n.aligned(0), n.aligned(1)}));
}
std::string not_equal(NodeExport& n) { return as_float(n, n.op("Not", {n.op("Equal", {n.aligned(0), n.aligned(1)})})); }

std::string choose(NodeExport& n) {
  const std::string yes = n.op("Cast", {n.aligned(0)}, {{"to", std::int64_t{onnx::TensorProto::BOOL}}});
  return n.op("Where", {yes, n.aligned(1), n.aligned(2)});
}

// Where the minimum is larger than the maximum, values below the minimum still become the minimum.
std::string clip(NodeExport& n) {
  const std::string low = n.aligned(0), x = n.aligned(2);
  return n.op("Where", {n.op("Less", {x, low}), low, n.op("Min", {x, n.aligned(1)})});
}

// 1 / 0 is 0.
std::string safe_reciprocal(NodeExport& n, const std::string& x) {
  const std::string zero = n.builder.scalar(0);
  return n.op("Where", {n.op("Equal", {x, zero}), zero, n.op("Reciprocal", {x})});
}
std::string reciprocal(NodeExport& n) { return safe_reciprocal(n, n.in[0].name); }

std::string logarithm(NodeExport& n) {
  const std::string& x = n.in[0].name;
  const std::string positive = n.op("Max", {x, n.builder.scalar(std::numeric_limits<float>::min())});
  const std::string nothing = n.op("LessOrEqual", {x, n.builder.scalar(0)});
  return n.op("Where", {nothing, n.builder.scalar(log_of_zero), n.op("Log", {positive})});
}

std::string square_root(NodeExport& n) { return n.op("Sqrt", {n.op("Relu", {n.in[0].name})}); }

// ONNX's Round rounds halves to even.
std::string round_half_up(NodeExport& n) {
  const std::string& x = n.in[0].name;
  return n.op("Floor", {n.op("Add", {x, n.builder.scalar(0.5f)})});
}

std::string log_plus(NodeExport& n) {
  const std::string a = n.aligned(0), b = n.aligned(1);
  const std::string apart = n.op("Neg", {n.op("Abs", {n.op("Sub", {a, b})})});
  const std::string rest = n.op("Log", {n.op("Add", {n.op("Exp", {apart}), n.builder.scalar(1)})});
  return n.op("Add", {n.op("Max", {a, b}), rest});
}

std::string normalize(NodeExport& n) { return n.op("Mul", {n.op("Sub", {n.aligned(0), n.aligned(1)}), n.aligned(2)}); }
std::string denormalize(NodeExport& n) {
  return n.op("Add", {n.op("Div", {n.aligned(0), n.aligned(2)}), n.aligned(1)});
}

// The axis of ONNX, counted from the end; 0 stands for the whole sample.
std::int64_t softmax_axis(const NodeExport& n) {
  if (graph::number(n.node, "axis", 0) == 0) return 0;
  return -static_cast<std::int64_t>(graph::axis_index(n.node, "axis", 0, n.in[0].shape.rank())) - 1;
}

std::int64_t elements_of(const OnnxOperand& x) { return static_cast<std::int64_t>(x.shape.elements()); }

template <const char* const& type>
std::string soften(NodeExport& n) {
  const std::int64_t axis = softmax_axis(n);
  if (axis != 0) return n.op(type, {n.in[0].name}, {{"axis", axis}});
  const std::string flat = n.op(type, {n.reshaped(n.in[0], {elements_of(n.in[0])})}, {{"axis", std::int64_t{-1}}});
  return n.value.shape.rank() == 1 ? flat : n.reshaped(flat, n.in[0].per_sample, onnx_dims(n.value.shape));
}

// The sum over a sample, as [1].
std::string sample_sum(NodeExport& n, const std::string& x, const OnnxOperand& like) {
  const std::string flat = n.reshaped({x, like.shape, like.per_sample}, {elements_of(like)});
  return n.op("ReduceSum", {flat, n.builder.names().ints({-1})}, {{"keepdims", std::int64_t{1}}});
}

std::string reduce(NodeExport& n) {
  const std::string kind = graph::text(n.node, "op", "Sum");
  std::int64_t axis = softmax_axis(n);
  std::string x = n.in[0].name;
  if (axis == 0) x = n.reshaped(n.in[0], {elements_of(n.in[0])}), axis = -1;
  const std::int64_t keep = 1;
  if (kind == "Sum") return n.op("ReduceSum", {x, n.builder.names().ints({axis})}, {{"keepdims", keep}});
  const char* type = kind == "LogSum" ? "ReduceLogSumExp"
                     : kind == "Mean" ? "ReduceMean"
                     : kind == "Min"  ? "ReduceMin"
                                      : "ReduceMax";
  return n.op(type, {x}, {{"axes", Ints{axis}}, {"keepdims", keep}});
}

std::string column_sum(NodeExport& n) { return sample_sum(n, n.in[0].name, n.in[0]); }

std::string cos_distance(NodeExport& n) {
  const OnnxOperand &a = n.in[0], &b = n.in[1], &like = a.per_sample ? a : b;
  const auto dot = [&](const OnnxOperand& x, const OnnxOperand& y, const OnnxOperand& of) {
    return sample_sum(n, n.op("Mul", {x.name, y.name}), of);
  };
  const std::string norms = n.op("Sqrt", {n.op("Mul", {dot(a, a, a), dot(b, b, b)})});
  return n.op("Mul", {dot(a, b, like), safe_reciprocal(n, norms)});
}

constexpr const char *kNeg = "Neg", *kSigmoid = "Sigmoid", *kTanh = "Tanh", *kRelu = "Relu", *kExp = "Exp",
                     *kAbs = "Abs", *kFloor = "Floor", *kCeil = "Ceil", *kSin = "Sin", *kCos = "Cos", *kAdd = "Add",
                     *kSub = "Sub", *kMul = "Mul", *kLess = "Less", *kEqual = "Equal", *kGreater = "Greater",
                     *kGreaterOrEqual = "GreaterOrEqual", *kLessOrEqual = "LessOrEqual", *kSoftmax = "Softmax",
                     *kLogSoftmax = "LogSoftmax", *kHardmax = "Hardmax";

}  // namespace

void list_elementwise_translations(NodeTranslations& all) {
  all.insert({{"Pass", same_value},
              {"Trace", same_value},
              {"Dropout", same_value},
              {"Negate", map_elements<kNeg>},
              {"Reciprocal", reciprocal},
              {"Sigmoid", map_elements<kSigmoid>},
              {"Tanh", map_elements<kTanh>},
              {"RectifiedLinear", map_elements<kRelu>},
              {"Exp", map_elements<kExp>},
              {"Log", logarithm},
              {"Sqrt", square_root},
              {"Abs", map_elements<kAbs>},
              {"Floor", map_elements<kFloor>},
              {"Ceil", map_elements<kCeil>},
              {"Round", round_half_up},
              {"Sin", map_elements<kSin>},
              {"Cosine", map_elements<kCos>},
              {"Plus", combine_elements<kAdd>},
              {"Minus", combine_elements<kSub>},
              {"ElementTimes", combine_elements<kMul>},
              {"LogPlus", log_plus},
              {"Less", compare_elements<kLess>},
              {"Equal", compare_elements<kEqual>},
              {"Greater", compare_elements<kGreater>},
              {"GreaterEqual", compare_elements<kGreaterOrEqual>},
              {"NotEqual", not_equal},
              {"LessEqual", compare_elements<kLessOrEqual>},
              {"If", choose},
              {"Clip", clip},
              {"PerDimMeanVarNormalization", normalize},
              {"PerDimMeanVarDeNormalization", denormalize},
              {"Softmax", soften<kSoftmax>},
              {"LogSoftmax", soften<kLogSoftmax>},
              {"Hardmax", soften<kHardmax>},
              {"ReduceElements", reduce},
              {"SumColumnElements", column_sum},
              {"CosDistance", cos_distance}});
}

}  // namespace tutti::interchange
