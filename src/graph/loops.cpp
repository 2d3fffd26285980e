// SPDX-License-Identifier: Apache-2.0
#include "graph/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "graph/lower.h"

namespace tutti::graph {
namespace {

constexpr std::size_t unseen = static_cast<std::size_t>(-1);

// Tarjan's algorithm with an explicit stack, because networks can be thousands of nodes deep.
class Components {
 public:
  Components(std::size_t nodes, const Edges& inputs)
      : inputs_(inputs), number_(nodes, unseen), low_(nodes), on_stack_(nodes) {}

  void visit(std::size_t root) {
    if (number_[root] != unseen) return;
    enter(root);
    while (!walk_.empty()) {
      auto& [node, next] = walk_.back();
      const auto in = inputs_(node);
      if (next < in.size()) {
        const std::size_t input = in[next++];
        if (number_[input] == unseen)
          enter(input);
        else if (on_stack_[input])
          low_[node] = std::min(low_[node], number_[input]);
        continue;
      }
      const std::size_t done = node;
      walk_.pop_back();
      if (!walk_.empty()) low_[walk_.back().first] = std::min(low_[walk_.back().first], low_[done]);
      if (low_[done] == number_[done]) close(done);
    }
  }
  std::vector<std::vector<std::size_t>> take() { return std::move(found_); }

 private:
  void enter(std::size_t node) {
    number_[node] = low_[node] = count_++;
    on_stack_[node] = true;
    stack_.push_back(node);
    walk_.emplace_back(node, 0);
  }
  void close(std::size_t node) {
    const auto begin = std::find(stack_.rbegin(), stack_.rend(), node).base() - 1;
    found_.emplace_back(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    for (const auto member : found_.back()) on_stack_[member] = false;
  }

  const Edges& inputs_;
  std::vector<std::size_t> number_, low_;
  std::vector<bool> on_stack_;
  std::vector<std::size_t> stack_;
  std::vector<std::pair<std::size_t, std::size_t>> walk_;
  std::vector<std::vector<std::size_t>> found_;
  std::size_t count_ = 0;
};

// The members (ascending) in the order of a step; `inputs` lists what a node waits for. Stops at the first cycle, whose
// nodes `circle` gets.
std::vector<std::size_t> sorted(const std::vector<std::size_t>& members, std::size_t nodes,
                                const std::function<std::vector<std::size_t>(std::size_t)>& inputs,
                                std::vector<std::size_t>& circle) {
  std::vector<std::vector<std::size_t>> within(nodes);
  for (const auto m : members)
    for (const auto i : inputs(m))
      if (std::binary_search(members.begin(), members.end(), i)) within[m].push_back(i);
  const auto edges = [&](std::size_t i) { return std::span(std::as_const(within[i])); };
  std::vector<std::size_t> order;
  for (const auto& component : strong_components(nodes, members, edges)) {
    order.push_back(component[0]);
    if (!is_cycle(component, within[component[0]])) continue;
    // Back along inputs in the component: sooner or later a node comes again.
    for (std::vector<std::size_t> path = {component[0]};;) {
      const auto& in = within[path.back()];
      const std::size_t next = *std::find_first_of(in.begin(), in.end(), component.begin(), component.end());
      const auto again = std::find(path.begin(), path.end(), next);
      if (again == path.end()) {
        path.push_back(next);
        continue;
      }
      circle.assign(path.rbegin(), std::make_reverse_iterator(again));
      return order;
    }
  }
  return order;
}

}  // namespace

bool is_delay(const std::string& operation) { return operation == "PastValue" || operation == "FutureValue"; }

bool runs_by_step(const std::string& operation) {
  static const std::set<std::string> whole = {
      "TimeReverse",          "SliceTime",           "Where",       "PackedIndex",
      "GatherPacked",         "ScatterPacked",       "LSTM",        "GRU",
      "ReconcileDynamicAxis", "BroadcastSequenceAs", "ShiftSamples"};
  return !whole.contains(operation);
}

bool only_layout(const std::string& operation, std::size_t k) {
  static const std::map<std::string, std::size_t> layouts = {{"ZeroSequence", 0},         {"DensifyShard", 0},
                                                             {"PackedIndex", 0},          {"ScatterPacked", 0},
                                                             {"ReconcileDynamicAxis", 1}, {"BroadcastSequenceAs", 0}};
  const auto found = layouts.find(operation);
  return found != layouts.end() && found->second == k;
}

bool needs_sequences(const std::string& operation) { return is_delay(operation) || !runs_by_step(operation); }

bool is_cycle(std::span<const std::size_t> component, std::span<const std::size_t> inputs) {
  return component.size() > 1 || std::find(inputs.begin(), inputs.end(), component[0]) != inputs.end();
}

std::vector<std::vector<std::size_t>> strong_components(std::size_t nodes, std::span<const std::size_t> roots,
                                                        const Edges& inputs) {
  Components components(nodes, inputs);
  for (const auto root : roots) components.visit(root);
  return components.take();
}

std::vector<std::size_t> order_in_loop(const Graph& graph, const std::vector<std::size_t>& given) {
  // In order of creation, so that the order does not depend on where the walk entered the loop.
  std::vector<std::size_t> members = given;
  std::sort(members.begin(), members.end());
  std::vector<std::size_t> circle;
  const auto inputs = [&](std::size_t m) {
    const auto& in = graph.nodes[m].inputs;
    return std::vector(in.begin() + is_delay(graph.nodes[m].operation), in.end());
  };
  const auto order = sorted(members, graph.nodes.size(), inputs, circle);
  if (!circle.empty()) {
    std::string chain;
    for (const auto m : circle) chain += fmt::format("'{}' <- ", graph.nodes[m].name);
    const Node& node = graph.nodes[circle.front()];
    throw ConfigError(
        node.where, fmt::format("'{}' depends on itself ({}'{}')", node.name, chain, graph.nodes[circle.front()].name),
        "a loop goes through time: put a PastValue or FutureValue into it");
  }
  const Node *past = nullptr, *future = nullptr;
  for (const auto m : members)
    if (is_delay(graph.nodes[m].operation) &&
        std::binary_search(members.begin(), members.end(), graph.nodes[m].inputs[0]))
      (graph.nodes[m].operation == "PastValue" ? past : future) = &graph.nodes[m];
  if (past && future)
    throw ConfigError(
        future->where,
        fmt::format("'{}' refers to the future and '{}' to the past within one loop", future->name, past->name),
        "a loop runs in one direction; write two loops and join their results with Splice");
  return order;
}

namespace {

// In training the statistics of a minibatch are those of all its steps, which a loop does not have at once.
void check_runs_by_step(const Instruction& i) {
  if (!runs_by_step(i.operation))
    throw ConfigError(i.node.where,
                      fmt::format("{} '{}' needs whole sequences and cannot be part of a loop through time",
                                  i.operation, i.node.name),
                      "move it out of the loop");
  if (i.operation == "BatchNormalization" && flag(i.node, "training", false))
    throw ConfigError(i.node.where,
                      fmt::format("BatchNormalization '{}' cannot be trained inside a loop through time", i.node.name),
                      "normalise the input or the output of the loop");
}

}  // namespace

void group_loops(Lowered& code) {
  auto& all = code.instructions;
  code.loops.clear();
  if (std::none_of(all.begin(), all.end(), [](const Instruction& i) { return is_delay(i.operation); })) return;
  std::map<std::size_t, std::size_t> makers;
  for (std::size_t i = 0; i < all.size(); ++i) makers[all[i].out.tensor] = i;
  std::vector<std::vector<std::size_t>> inputs(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto& o : all[i].in)
      if (const auto maker = makers.find(o.tensor); maker != makers.end()) inputs[i].push_back(maker->second);
  std::vector<std::size_t> roots(all.size());
  std::iota(roots.begin(), roots.end(), std::size_t{0});
  const auto groups =
      strong_components(all.size(), roots, [&](std::size_t i) { return std::span(std::as_const(inputs[i])); });

  std::vector<Instruction> result;
  for (auto group : groups) {
    if (!is_cycle(group, inputs[group[0]])) {
      result.push_back(std::move(all[group[0]]));
      continue;
    }
    std::sort(group.begin(), group.end());
    std::vector<std::size_t> circle;
    const auto waits_for = [&](std::size_t m) {
      std::vector<std::size_t> in;
      for (std::size_t k = is_delay(all[m].operation); k < all[m].in.size(); ++k)
        if (const auto maker = makers.find(all[m].in[k].tensor); maker != makers.end()) in.push_back(maker->second);
      return in;
    };
    const auto order = sorted(group, all.size(), waits_for, circle);
    Loop l{result.size(), result.size() + order.size(), all[order[0]].out.axis, false};
    for (const auto i : order) {
      const Instruction& instruction = all[i];
      if (!instruction.out.per_sample)
        throw ConfigError(instruction.node.where,
                          fmt::format("'{}' sums over all samples and feeds a loop through time that it depends on",
                                      instruction.node.name),
                          "take the sum over the elements of a sample: SumColumnElements or ReduceSum");
      if (instruction.out.axis != l.axis)
        throw ConfigError(
            instruction.node.where,
            fmt::format("'{}' changes the dynamic axis inside a loop through time", instruction.node.name),
            "gather, scatter and slice sequences outside the loop");
      if (is_delay(instruction.operation)) l.backwards = instruction.operation == "FutureValue";
    }
    for (const auto i : order) check_runs_by_step(all[i]);
    for (const auto i : order) result.push_back(std::move(all[i]));
    code.loops.push_back(l);
  }
  all = std::move(result);
}

}  // namespace tutti::graph
