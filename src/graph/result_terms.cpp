// SPDX-License-Identifier: Apache-2.0
#include "graph/result_terms.h"

#include <algorithm>
#include <string>

namespace tutti::graph {
namespace {

bool depends_on_samples(const Graph& graph, std::size_t node) {
  const auto order = execution_order(graph, {node});
  return std::any_of(order.begin(), order.end(),
                     [&](std::size_t i) { return graph.nodes[i].operation == "InputValue"; });
}

// Whether the node is computed from a value of the whole minibatch, such as a sum over its samples. Precomputed
// statistics are values of the data set.
bool uses_whole_minibatch(const Graph& graph, const std::vector<Value>& values, std::size_t node) {
  std::vector<bool> sampled(graph.nodes.size(), false);
  for (const std::size_t i : execution_order(graph, {node})) {
    const Node& n = graph.nodes[i];
    sampled[i] = values[i].per_sample ||
                 (!is_statistic(n) && std::ranges::any_of(n.inputs, [&](std::size_t in) { return sampled[in]; }));
    if (sampled[i] && !values[i].per_sample && i != node) return true;
  }
  return false;
}

// Whether the node is the sum of its inputs, or of their elements, apart from factors.
bool is_linear(const Node& node) {
  static const std::set<std::string> operations = {
      "Plus", "Minus", "Negate", "Pass", "Trace", "Reshape", "SumColumnElements", "SumElements"};
  return operations.contains(node.operation) || (node.operation == "ReduceElements" && text(node, "op", "") == "Sum");
}

bool is_product(const Node& node) {
  return node.operation == "ElementTimes" || node.operation == "Times" || node.operation == "TransposeTimes";
}

struct Walk {
  // A sum over samples, or a value per sample; parameters may scale terms.
  void visit(std::size_t index) {
    const Node& node = graph.nodes[index];
    const auto per_sample = [&](std::size_t i) { return values[i].per_sample; };
    if (!visited.insert(index).second) return;
    if (per_sample(index) || (sums_over_samples(node) && std::ranges::any_of(node.inputs, per_sample))) {
      if (uses_whole_minibatch(graph, values, index)) terms.indivisible.push_back(index);
      return;
    }
    if (is_linear(node)) {
      for (const std::size_t input : node.inputs)
        if (depends_on_samples(graph, input))
          visit(input);
        else
          terms.inputs.emplace(index, input);
      return;
    }
    if (is_product(node))
      for (const std::size_t k : {0, 1})
        if (!depends_on_samples(graph, node.inputs[k])) return visit(node.inputs[1 - k]);
    terms.indivisible.push_back(index);
  }

  const Graph& graph;
  const std::vector<Value>& values;
  ResultTerms terms;
  std::set<std::size_t> visited;
};

}  // namespace

ResultTerms find_terms(const Graph& graph, const std::vector<Value>& values, const std::vector<std::size_t>& results) {
  Walk walk{graph, values, {}, {}};
  for (const std::size_t root : results)
    if (depends_on_samples(graph, root))
      walk.visit(root);
    else
      walk.terms.whole.insert(root);
  return std::move(walk.terms);
}

}  // namespace tutti::graph
