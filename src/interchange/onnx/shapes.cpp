// SPDX-License-Identifier: Apache-2.0
// Products, and operations that move values.
#include <algorithm>
#include <numeric>

#include "interchange/onnx/node_export.h"

namespace tutti::interchange {
namespace {

std::int64_t product(const Shape& s, std::size_t first, std::size_t last) {
  std::int64_t n = 1;
  for (std::size_t axis = first; axis < last; ++axis) n *= static_cast<std::int64_t>(s[axis]);
  return n;
}

// y = x W. The weight [out x in] lies column after column, which is (in, out) with the last axis fastest.
std::string multiply(NodeExport& n, const std::string& weight, bool weight_per_sample, const OnnxOperand& x,
                     std::int64_t inner, std::int64_t rest) {
  const Ints dims = !weight_per_sample && rest == 1 ? Ints{inner} : Ints{rest, inner};
  const std::string y = n.op("MatMul", {n.reshaped(x, dims), weight});
  const Ints wanted = onnx_dims(n.value.shape);
  const bool flat = dims.size() == 1 && wanted.size() == 1;
  return flat || (dims.size() == 2 && wanted.size() == 2 && wanted[0] == rest)
             ? y
             : n.reshaped(y, n.value.per_sample, wanted);
}

std::string times(NodeExport& n) {
  const OnnxOperand &a = n.in[0], &b = n.in[1];
  const auto out_rank = static_cast<std::size_t>(graph::number(n.node, "outputRank", 1));
  const std::size_t inner_rank = a.shape.rank() - out_rank;
  const std::int64_t inner = product(a.shape, out_rank, a.shape.rank()), out = product(a.shape, 0, out_rank);
  return multiply(n, n.reshaped(a, {inner, out}), a.per_sample, b, inner, product(b.shape, inner_rank, b.shape.rank()));
}

std::string transpose_times(NodeExport& n) {
  const OnnxOperand &a = n.in[0], &b = n.in[1];
  const auto inner = static_cast<std::int64_t>(a.shape[0]), out = static_cast<std::int64_t>(a.shape[1]);
  const std::string stored = n.reshaped(a, {out, inner});
  Ints axes(n.batch_axes(a.per_sample) + 2);
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes.back(), axes[axes.size() - 2]);
  const std::string weight = n.op("Transpose", {stored}, {{"perm", axes}});
  return multiply(n, weight, a.per_sample, b, inner, product(b.shape, 1, b.shape.rank()));
}

// One factor for each row.
std::string diag_times(NodeExport& n) {
  const OnnxOperand vector{n.reshaped(n.in[0], {static_cast<std::int64_t>(n.in[0].shape[0])}),
                           Shape{{n.in[0].shape[0]}}, n.in[0].per_sample};
  return n.op("Mul", {n.aligned(vector, n.value.shape.rank()), n.aligned(1)});
}

std::string khatri_rao(NodeExport& n) {
  const auto a = static_cast<std::int64_t>(n.in[0].shape.elements()),
             b = static_cast<std::int64_t>(n.in[1].shape.elements());
  const std::string outer = n.op("Mul", {n.reshaped(n.in[1], {b, 1}), n.reshaped(n.in[0], {1, a})});
  return n.reshaped(outer, n.value.per_sample, {a * b});
}

// One or several one-hot vectors, each of which selects a row of the table (words, size).
std::string lookup_table(NodeExport& n) {
  const OnnxOperand &table = n.in[0], &x = n.in[1];
  const auto words = static_cast<std::int64_t>(table.shape[1]);
  const auto vectors = static_cast<std::int64_t>(x.shape.elements()) / words;
  const std::string found = n.op("MatMul", {n.reshaped(x, {vectors, words}), table.name});
  return n.reshaped(found, n.value.per_sample, onnx_dims(n.value.shape));
}

std::string slice(NodeExport& n) {
  const double begin = graph::number(n.node, "begin", 0), end = graph::number(n.node, "end", 0);
  if (graph::is_time_slice(n.node))
    return n.builder.slice(n.in[0].name, static_cast<std::int64_t>(begin),
                           end == 0 ? to_the_end : static_cast<std::int64_t>(end), 0);
  const std::size_t axis = graph::axis_index(n.node, "axis", 1, n.in[0].shape.rank());
  const graph::Range range = graph::slice_range(n.node, n.in[0].shape[axis]);
  return n.builder.slice(n.in[0].name, static_cast<std::int64_t>(range.first), static_cast<std::int64_t>(range.last),
                         -static_cast<std::int64_t>(axis) - 1);
}

std::string row_stack(NodeExport& n) {
  const double given = graph::number(n.node, "axis", 1);
  const std::size_t rank = n.value.shape.rank();
  const std::size_t axis = given > 0 ? static_cast<std::size_t>(given) - 1 : graph::axis_index(n.node, "axis", 1, rank);
  const OnnxOperand* like = n.value.per_sample ? n.per_sample_operand() : nullptr;
  std::vector<std::string> parts;
  for (const OnnxOperand& x : n.in) {
    Ints dims = onnx_dims(n.value.shape);
    dims[rank - 1 - axis] = static_cast<std::int64_t>(x.shape[axis]);
    parts.push_back(n.expanded(x, dims, like));
  }
  return n.op("Concat", parts, {{"axis", -static_cast<std::int64_t>(axis) - 1}});
}

std::string row_repeat(NodeExport& n) {
  const OnnxOperand& x = n.in[0];
  const std::string whole = x.shape.rank() == 0 ? n.reshaped(x, {1}) : x.name;
  const std::vector<std::string> parts(static_cast<std::size_t>(graph::number(n.node, "numRepeats", 1)), whole);
  return n.op("Concat", parts, {{"axis", -static_cast<std::int64_t>(n.value.shape.rank())}});
}

std::string reshape(NodeExport& n) { return n.reshaped(n.in[0], onnx_dims(n.value.shape)); }

std::string transpose(NodeExport& n) {
  const std::size_t rank = n.value.shape.rank(), batch = n.batch_axes(n.in[0].per_sample);
  Ints axes(batch + rank);
  std::iota(axes.begin(), axes.end(), 0);
  const auto place = [&](const char* name, double otherwise) {
    return axes.size() - 1 - graph::axis_index(n.node, name, otherwise, rank);
  };
  std::swap(axes[place("axis1", 1)], axes[place("axis2", 2)]);
  Ints dims = onnx_dims(n.in[0].shape);
  dims.insert(dims.begin(), rank - n.in[0].shape.rank(), 1);  // a vector is a matrix with one column
  return n.op("Transpose", {n.reshaped(n.in[0], dims)}, {{"perm", axes}});
}

}  // namespace

void list_shape_translations(NodeTranslations& all) {
  all.insert({{"Times", times},
              {"TransposeTimes", transpose_times},
              {"DiagTimes", diag_times},
              {"KhatriRaoProduct", khatri_rao},
              {"LookupTable", lookup_table},
              {"Slice", slice},
              {"RowStack", row_stack},
              {"RowRepeat", row_repeat},
              {"Reshape", reshape},
              {"TransposeDimensions", transpose}});
}

}  // namespace tutti::interchange
