// SPDX-License-Identifier: Apache-2.0
// Corpus statistics: mean and inverse deviation of a value over every sample, gathered in one pass in double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/network_impl.h"

namespace tutti {
namespace {

// The computed values are part of the model, and so is this mark.
constexpr const char* done = "precomputed";

bool open(const graph::Node& node) {
  return (node.operation == "Mean" || node.operation == "InvStdDev") && !graph::flag(node, done, false);
}

constexpr double least_variance = 1e-10;

}  // namespace

std::vector<std::string> Network::precompute_nodes() const {
  std::vector<std::string> names;
  for (const auto index : impl_->order)
    if (open(impl_->graph.nodes[index])) names.push_back(impl_->graph.nodes[index].name);
  return names;
}

void Network::precompute_begin() {
  Impl& m = *impl_;
  m.gathering.clear();
  std::vector<std::size_t> roots;
  for (const auto index : m.order) {
    const graph::Node& node = m.graph.nodes[index];
    if (!open(node)) continue;
    for (const auto below : graph::evaluation_order(m.graph, {node.inputs[0]}))
      if (open(m.graph.nodes[below]))
        throw ConfigError(node.where,
                          fmt::format("'{}' is a statistic of something that needs the statistic '{}'", node.name,
                                      m.graph.nodes[below].name),
                          "take both statistics from the data themselves");
    const std::size_t n = m.values[index].shape.elements();
    m.gathering.push_back({index, 0, std::vector<double>(n), std::vector<double>(n)});
    roots.push_back(node.inputs[0]);
  }
  m.statistics = m.make(roots, {.criterion = {}, .training = false, .reuse_memory = m.options.reuse_memory});
}

void Network::precompute_accumulate(const Batch& batch) {
  Impl& m = *impl_;
  Executable& e = *m.statistics;
  for (const auto& part : m.parts(e, batch)) {
    m.attach(e, batch, part);
    e.program.forward(e.run);
    for (auto& statistic : m.gathering) {
      const graph::Operand& o = e.program.code().of_node.at(m.graph.nodes[statistic.node].inputs[0]);
      const float* x = e.run.value(o);
      for (std::size_t c = 0; c < e.run.rows(o); ++c, x += o.elements)
        for (std::size_t i = 0; i < o.elements; ++i) {
          statistic.sum[i] += x[i];
          statistic.square[i] += static_cast<double>(x[i]) * x[i];
        }
      statistic.count += static_cast<double>(e.run.rows(o));
    }
  }
}

void Network::precompute_end(const std::function<void(std::span<double>)>& reduce) {
  Impl& m = *impl_;
  for (auto& statistic : m.gathering) {
    const std::size_t n = statistic.sum.size();
    std::vector<double> all = statistic.sum;
    all.insert(all.end(), statistic.square.begin(), statistic.square.end());
    all.push_back(statistic.count);
    reduce(all);
    graph::Node& node = m.graph.nodes[statistic.node];
    const double count = all.back();
    if (count == 0) throw Error(fmt::format("computing '{}': the training data hold no samples", node.name));
    float* values = m.stored[m.store_of[statistic.node]].values.data();
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = all[i] / count;
      const double variance = std::max(all[n + i] / count - mean * mean, least_variance);
      values[i] = static_cast<float>(node.operation == "Mean" ? mean : 1 / std::sqrt(variance));
    }
    node.attributes[done] = true;
  }
  m.gathering.clear();
  m.statistics.reset();
}

}  // namespace tutti
