// SPDX-License-Identifier: Apache-2.0
// Prints node values to the log: those that traceNodeNames... names, for every minibatch, and Trace nodes, for the
// minibatches that they request. Runs its own forward pass, without dropout and with the weights from before the step.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "graph/shapes.h"
#include "train/text_output.h"
#include "train/training.h"
#include "tutti/log.h"

namespace tutti {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const graph::Node* trace_node(const Network& network, const std::string& name) {
  for (const auto& node : network.graph().nodes)
    if (node.operation == "Trace" && node.name == name) return &node;
  return nullptr;
}

// Minibatches of an epoch count from 1.
bool due(const graph::Node& trace, std::int64_t minibatch) {
  const auto every = static_cast<std::int64_t>(graph::number(trace, "logFrequency", 100));
  return minibatch <= static_cast<std::int64_t>(graph::number(trace, "logFirst", 10)) ||
         (every > 0 && (minibatch - 1) % every == 0);
}

std::string values_text(const Network::Output& output, OutputType type, std::int64_t minibatch) {
  const std::int64_t whole[] = {0, static_cast<std::int64_t>(output.columns)};
  OutputFormat format;
  format.type = type;
  std::ostringstream text;
  TextOutput writer(text, format, output.name, {});
  writer.write(output, std::span(whole), minibatch);
  writer.finish();
  return text.str();
}

// The first rows of the first columns.
void print_trace(const graph::Node& trace, const Network::Output& output, std::int64_t minibatch) {
  const std::size_t elements = output.shape.elements();
  const auto rows = std::min(elements, static_cast<std::size_t>(graph::number(trace, "onlyUpToRow", 1e8)));
  const auto columns = std::min(output.columns, static_cast<std::size_t>(graph::number(trace, "onlyUpToT", 1e8)));
  std::vector<float> part;
  for (std::size_t c = 0; c < columns; ++c)
    part.insert(part.end(), output.values.begin() + static_cast<long>(c * elements),
                output.values.begin() + static_cast<long>(c * elements + rows));
  Network::Output shown = output;
  shown.shape = Shape{{rows}}, shown.columns = columns, shown.values = part;
  log::line(fmt::format("------- Trace[{}] {} --> {}\n{}", minibatch, graph::text(trace, "say"), trace.name,
                        values_text(shown, OutputType::real, minibatch)));
}

}  // namespace

std::vector<std::string> traced_nodes(const SgdOptions& sgd, const graph::Graph& graph) {
  std::vector<std::string> names = sgd.trace_real;
  for (const auto* more : {&sgd.trace_category, &sgd.trace_sparse})
    for (const auto& name : *more)
      if (!contains(names, name)) names.push_back(name);
  std::vector<std::size_t> roots;
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    roots.insert(roots.end(), set->begin(), set->end());
  for (const auto n : graph::evaluation_order(graph, roots))
    if (graph.nodes[n].operation == "Trace" && !contains(names, graph.nodes[n].name))
      names.push_back(graph.nodes[n].name);
  return names;
}

void trace_nodes(Training& t, const Batch& batch) {
  const std::int64_t minibatch = t.progress.minibatches_in_epoch;
  const auto& nodes = t.network->graph().nodes;
  const bool wanted = t.sgd.traces() || std::any_of(nodes.begin(), nodes.end(), [&](const graph::Node& n) {
                        return n.operation == "Trace" && due(n, minibatch + 1);
                      });
  if (!wanted) return;
  for (const auto& output : t.network->forward(batch)) {
    const auto print = [&](OutputType type) {
      log::line(fmt::format("Trace --> {}\n{}", output.name, values_text(output, type, minibatch)));
    };
    if (contains(t.sgd.trace_real, output.name)) print(OutputType::real);
    if (contains(t.sgd.trace_category, output.name)) print(OutputType::category);
    if (contains(t.sgd.trace_sparse, output.name)) print(OutputType::sparse);
    if (const graph::Node* trace = trace_node(*t.network, output.name); trace && due(*trace, minibatch + 1))
      print_trace(*trace, output, minibatch + 1);
  }
}

}  // namespace tutti
