// SPDX-License-Identifier: Apache-2.0
// Operations in time. Values per sample have the axes (time, batch) in front. Delays within loops are states of the
// Scan that loop_export.cpp makes.
#include <algorithm>

#include "interchange/onnx/node_export.h"

namespace tutti::interchange {
namespace {

Ints elements_only(const OnnxOperand& x) { return onnx_dims(x.shape); }

// One step of the state with the dims of the value: (1, batch, ...).
std::string first_steps(NodeExport& n, std::int64_t steps) {
  const OnnxOperand& x = n.in[0];
  const std::string shape =
      n.op("Concat", {n.builder.names().ints({steps}), n.builder.slice(n.op("Shape", {x.name}), 1, to_the_end, 0)},
           {{"axis", std::int64_t{0}}});
  if (n.in.size() < 2)
    return n.op("Expand",
                {n.builder.scalar(static_cast<float>(graph::number(n.node, "defaultHiddenActivation", 0.1))), shape});
  const OnnxOperand& state = n.in[1];
  const bool one = state.shape.elements() == 1;
  const std::string values = one ? n.reshaped(state, {1}) : n.reshaped(state, onnx_dims(x.shape));
  const std::string begin = state.per_sample ? n.builder.slice(values, 0, 1, 0) : values;
  return n.op("Expand", {one && state.per_sample ? n.reshaped(begin, true, Ints(x.shape.rank(), 1)) : begin, shape});
}

// Outside of loops: the values of other steps, and what stands in for those before the first or behind the last one.
template <bool past>
std::string delay_value(NodeExport& n) {
  const auto steps = static_cast<std::int64_t>(graph::number(n.node, "timeStep", 1));
  const std::string& x = n.in[0].name;
  if (n.in.size() > 1 && n.in[1].per_sample && n.in[1].axis == n.in[0].axis) {
    const OnnxOperand& state = n.in[1];
    if (state.shape.elements() != n.in[0].shape.elements()) n.refuse("an initial state of another size");
    const std::string values = n.reshaped(state, elements_only(n.in[0]));
    const std::string ends =
        past ? n.builder.slice(values, 0, steps, 0) : n.builder.slice(values, -steps, to_the_end, 0);
    const std::string kept = past ? n.builder.slice(x, 0, -steps, 0) : n.builder.slice(x, steps, to_the_end, 0);
    return n.op("Concat", past ? std::vector{ends, kept} : std::vector{kept, ends}, {{"axis", std::int64_t{0}}});
  }
  const std::string ends = first_steps(n, steps);
  const std::string all =
      n.op("Concat", past ? std::vector{ends, x} : std::vector{x, ends}, {{"axis", std::int64_t{0}}});
  return past ? n.builder.slice(all, 0, -steps, 0) : n.builder.slice(all, steps, to_the_end, 0);
}

std::string time_reverse(NodeExport& n) { return n.builder.slice(n.in[0].name, -1, to_the_begin, 0, -1); }

// In each minibatch the program compares the lengths; a batch of ONNX has one length.
std::string reconcile(NodeExport& n) { return n.in[0].name; }

std::string zero_sequence(NodeExport& n) {
  const OnnxOperand& x = n.in[0];
  const std::string shape = n.builder.shape_like(x.name, static_cast<std::int64_t>(n.batch_axes(x.per_sample)), {1});
  return n.op("Expand", {n.builder.scalar(0), shape});
}

// Sequences of one step, for every step of the first operand.
std::string broadcast_sequence(NodeExport& n) {
  const OnnxOperand& x = n.in[1];
  const std::string time = n.builder.slice(n.op("Shape", {n.in[0].name}), 0, 1, 0);
  const std::string rest = n.builder.slice(n.op("Shape", {x.name}), 1, to_the_end, 0);
  return n.op("Expand", {x.name, n.op("Concat", {time, rest}, {{"axis", std::int64_t{0}}})});
}

}  // namespace

void list_sequence_translations(NodeTranslations& all) {
  all.insert({{"PastValue", delay_value<true>},
              {"FutureValue", delay_value<false>},
              {"TimeReverse", time_reverse},
              {"ReconcileDynamicAxis", reconcile},
              {"ZeroSequence", zero_sequence},
              {"BroadcastSequenceAs", broadcast_sequence}});
}

}  // namespace tutti::interchange
