// SPDX-License-Identifier: Apache-2.0
// Softmax with cross entropy and classification error of samples whose logits several ranks hold.
#include "graph/placed_values.h"

namespace tutti::graph {
namespace {

Operand largest_of(PlacedValues& v, const Operand& x) {
  return v.emit("ReduceElements", {x}, v.make(Shape{{1}}, x.axis), {{"op", std::string("Max")}, {"axis", 0.0}});
}

// The index of the largest element, for this rank's samples.
Operand largest_index(PlacedValues& v, const Operand& x, std::size_t own, std::size_t width) {
  const Operand index = v.emit("IndexOfLargest", {x}, v.make(Shape{{1}}, x.axis));
  const Operand all = v.convert("ArgMaxOfRanks", {largest_of(v, x), index}, v.make(Shape{{1}}, x.axis), own, width);
  return v.convert("OwnSamples", {all}, v.make(Shape{{1}}, own), own, 1);
}

}  // namespace

// log softmax = z - max - log sum exp (z - max), with the largest value and the sum over the ranks. Each rank sums
// the loss of its features; the criterion is the sum over the ranks.
bool softmax_loss(PlacedValues& v, const Instruction& i) {
  Operand label = i.in[0], z = i.in[1];
  if (!is_vector(z.shape) || !is_vector(label.shape) || !label.per_sample || label.elements != z.elements ||
      number(i.node, "axis", 0) != 0)
    return false;
  const std::size_t own = v.own_axis(z), width = z.elements;
  label = v.at(label, Place::shard), z = v.at(z, Place::shard);
  const auto like_z = [&] { return v.make(z.shape, z.axis); };
  const auto scalar = [&] { return v.make(Shape{{1}}, z.axis); };
  const auto over_ranks = [&](const Operand& o, const char* op) {
    return v.convert("AllReduce", {o}, scalar(), own, width, {{"op", std::string(op)}});
  };
  const Operand largest = over_ranks(largest_of(v, z), "Max");
  const Operand shifted = v.emit("Minus", {z, largest}, like_z());
  const Operand sum = v.emit("ReduceElements", {v.emit("Exp", {shifted}, like_z())}, scalar(),
                             {{"op", std::string("Sum")}, {"axis", 0.0}});
  const Operand log_sum = v.emit("Log", {over_ranks(sum, "Sum")}, scalar());
  const Operand loss = v.emit("ElementTimes", {label, v.emit("Minus", {log_sum, shifted}, like_z())}, like_z());
  v.emit("SumElements", {loss}, i.out);
  return true;
}

bool classification_error(PlacedValues& v, const Instruction& i) {
  if (i.in.size() != 2 || number(i.node, "topN", 1) != 1 || number(i.node, "axis", 0) != 0) return false;
  Operand a = i.in[0], b = i.in[1];
  if (!is_vector(a.shape) || !is_vector(b.shape) || !a.per_sample || !b.per_sample || a.elements != b.elements)
    return false;
  const std::size_t own = v.own_axis(b), width = b.elements;
  a = v.at(a, Place::shard), b = v.at(b, Place::shard);
  const Operand ia = largest_index(v, a, own, width), ib = largest_index(v, b, own, width);
  v.emit("SumElements", {v.emit("NotEqual", {ia, ib}, v.make(Shape{{1}}, own))}, i.out);
  return true;
}

}  // namespace tutti::graph
