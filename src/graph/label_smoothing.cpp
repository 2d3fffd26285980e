// SPDX-License-Identifier: Apache-2.0
#include "graph/label_smoothing.h"

#include <fmt/format.h>

#include "graph/shapes.h"
#include "tutti/error.h"

namespace tutti::graph {

LabelSmoothing smooth_labels(const Graph& graph, std::size_t criterion, double amount) {
  LabelSmoothing smoothing{amount, {}};
  if (amount == 0) return smoothing;
  for (const std::size_t index : evaluation_order(graph, {criterion})) {
    const Node& node = graph.nodes[index];
    if (node.operation != "CrossEntropyWithSoftmax") continue;
    for (const std::size_t i : evaluation_order(graph, {node.inputs[0]}))
      if (graph.nodes[i].operation == "LearnableParameter" && number(graph.nodes[i], "learningRateMultiplier", 1) != 0)
        throw ConfigError(node.where,
                          fmt::format("labelSmoothing: the labels of '{}' depend on the trained parameter '{}'",
                                      node.name, graph.nodes[i].name),
                          "remove labelSmoothing from SGD, and smooth these labels in the network");
    smoothing.nodes.insert(index);
  }
  const Node& node = graph.nodes[criterion];
  if (smoothing.nodes.empty())
    throw ConfigError(node.where,
                      fmt::format("labelSmoothing needs a criterion CrossEntropyWithSoftmax; '{}' is a {}", node.name,
                                  node.operation),
                      "remove labelSmoothing from SGD, or use CrossEntropyWithSoftmax without axis");
  return smoothing;
}

}  // namespace tutti::graph
