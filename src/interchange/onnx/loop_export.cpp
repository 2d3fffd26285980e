// SPDX-License-Identifier: Apache-2.0
#include "interchange/onnx/loop_export.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/loops.h"

namespace tutti::interchange {

LoopExport::LoopExport(NetworkExport& all, const std::vector<std::size_t>& members)
    : all_(all), outside_(*all.builder_), members_(members.begin(), members.end()) {
  order_ = graph::order_in_loop(all.graph_, {members_.begin(), members_.end()});
  find_outside();
}

// What the members use from outside, step by step. The initial state of a delay is not: it is needed once.
void LoopExport::find_outside() {
  for (const std::size_t m : order_) {
    const auto& inputs = all_.inputs_[m];
    const bool delay = graph::is_delay(all_.graph_.nodes[m].operation);
    for (std::size_t k = 0; k < (delay ? 1 : inputs.size()); ++k)
      if (!members_.contains(inputs[k]) && all_.values_[inputs[k]].per_sample &&
          std::ranges::find(scanned_, inputs[k]) == scanned_.end())
        scanned_.push_back(inputs[k]);
  }
}

// (batch, dims...), before the first step.
std::string LoopExport::initial_value(std::size_t delay) {
  const graph::Node& node = all_.graph_.nodes[delay];
  NodeExport n(outside_, all_, node, all_.values_[delay], {});
  if (scanned_.empty()) n.refuse("a loop that no sequence enters");
  const Ints dims = onnx_dims(all_.values_[delay].shape);
  const std::string batch = outside_.slice(outside_.op("Shape", {all_.name_[scanned_[0]]}), 1, 2, 0);
  const std::string shape = outside_.op("Concat", {batch, outside_.names().ints(dims)}, {{"axis", std::int64_t{0}}});
  if (node.inputs.size() < 2) {
    const auto value = static_cast<float>(graph::number(node, "defaultHiddenActivation", 0.1));
    return outside_.op("Expand", {outside_.scalar(value), shape});
  }
  const OnnxOperand state = all_.operand(node.inputs[1], all_.name_[node.inputs[1]]);
  const Ints own = state.shape.elements() == 1 ? Ints(dims.size(), 1) : dims;
  std::string value = n.reshaped(state, own);
  if (state.per_sample) {
    const bool same_axis = state.axis == all_.values_[delay].axis;
    if (same_axis && graph::number(node, "timeStep", 1) != 1)
      n.refuse("an initial state for each step, with a timeStep above 1");
    const bool last = same_axis && node.operation == "FutureValue";
    value = last ? outside_.slice(value, -1, to_the_end, 0) : outside_.slice(value, 0, 1, 0);
    value = outside_.op("Squeeze", {value, outside_.names().ints({0})});
  }
  return outside_.op("Expand", {value, shape});
}

// A delay by k steps keeps the k values before.
void LoopExport::add_states(Scan& scan) {
  std::size_t count = 0;
  for (const std::size_t m : order_) {
    const graph::Node& node = all_.graph_.nodes[m];
    if (!graph::is_delay(node.operation)) continue;
    Delayed d{m, count, static_cast<std::size_t>(graph::number(node, "timeStep", 1)), {}};
    const std::string initial = initial_value(m);
    for (std::size_t i = 0; i < d.steps; ++i) d.states.push_back(scan.state(initial, onnx_dims(all_.values_[m].shape)));
    count += d.steps;
    name_[m] = d.states.back();
    delays_.push_back(std::move(d));
  }
}

void LoopExport::run() {
  const std::string name = fmt::format("loop of {}", all_.graph_.nodes[order_.front()].name);
  outside_.begin_node(name);
  const bool backwards =
      std::ranges::any_of(order_, [&](std::size_t m) { return all_.graph_.nodes[m].operation == "FutureValue"; });
  Scan scan(outside_, name, backwards);
  add_states(scan);
  for (const std::size_t s : scanned_) name_[s] = scan.input(all_.name_[s], onnx_dims(all_.values_[s].shape));
  for (const std::size_t m : order_) {
    if (graph::is_delay(all_.graph_.nodes[m].operation)) continue;
    std::vector<std::string> inputs;
    for (const std::size_t in : all_.inputs_[m]) inputs.push_back(name_.contains(in) ? name_[in] : all_.name_[in]);
    scan.body().begin_node(all_.graph_.nodes[m].name + "/step");
    name_[m] = all_.result_of(m, scan.body(), inputs);
  }
  for (const Delayed& d : delays_) {
    const std::size_t source = all_.inputs_[d.node][0];
    for (std::size_t i = 0; i < d.steps; ++i) scan.next(d.first_state + i, i == 0 ? name_.at(source) : d.states[i - 1]);
  }
  for (const std::size_t m : order_)
    if (all_.used_outside(m, members_)) {
      all_.name_[m] = all_.graph_.nodes[m].name;
      scan.output(name_.at(m), all_.name_[m], onnx_dims(all_.values_[m].shape));
    }
  outside_.begin_node(name);
  scan.finish();
}

}  // namespace tutti::interchange
