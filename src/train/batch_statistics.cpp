// SPDX-License-Identifier: Apache-2.0
#include "train/batch_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "graph/shapes.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// The weighted means of the statistics of each element or channel over the minibatches.
class Average {
 public:
  explicit Average(std::size_t statistics) : mean_(statistics), variance_(statistics) {}

  void add(const Network::Output& x, Communicator& world, bool shared) {
    const std::size_t n = mean_.size(), elements = x.shape.elements();
    // Channels are the last axis: the channel of an element is its index divided by the image size.
    const std::size_t image = std::max<std::size_t>(elements / n, 1);
    std::vector<double> sums(2 * n + 1);
    sums[2 * n] = static_cast<double>(x.columns * image);
    for (std::size_t c = 0; c < x.columns; ++c)
      for (std::size_t i = 0; i < elements; ++i) {
        const double v = x.values[c * elements + i];
        sums[i / image] += v;
        sums[n + i / image] += v * v;
      }
    if (shared) world.all_reduce_sum(std::span<double>(sums));
    const double count = sums[2 * n];
    if (count == 0) return;
    weight_ += count;
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = sums[i] / count, variance = std::max(sums[n + i] / count - mean * mean, 0.0);
      mean_[i] += (mean - mean_[i]) * count / weight_;
      variance_[i] += (variance - variance_[i]) * count / weight_;
    }
  }
  double weight() const { return weight_; }
  void store(std::span<float> mean, std::span<float> variance) const {
    std::copy(mean_.begin(), mean_.end(), mean.begin());
    std::copy(variance_.begin(), variance_.end(), variance.begin());
  }

 private:
  std::vector<double> mean_, variance_;
  double weight_ = 0;
};

std::span<float> values_of(Network& network, const std::string& name) {
  for (auto& s : network.state())
    if (s.name == name) return s.values;
  for (const Slice& s : network.parameters().slices)
    if (s.name == name) return network.parameters().weights.span().subspan(s.offset, s.size());
  throw Error(fmt::format("bnstat: the model has no values for '{}'", name));
}

std::vector<std::size_t> normalizations(const graph::Graph& graph) {
  std::vector<std::size_t> roots;
  for (const auto* set : {&graph.criteria, &graph.evaluations, &graph.outputs})
    roots.insert(roots.end(), set->begin(), set->end());
  std::vector<std::size_t> found;
  for (const auto n : graph::evaluation_order(graph, roots))
    if (graph.nodes[n].operation == "BatchNormalization") found.push_back(n);
  return found;
}

}  // namespace

std::size_t recompute_batch_statistics(Network& network, Reader& reader, Communicator& world,
                                       const BatchStatisticsPlan& wanted) {
  const graph::Graph& graph = network.graph();
  network.bind(reader.streams());
  EpochPlan plan;
  plan.samples = wanted.minibatch * wanted.iterations;
  plan.minibatch = wanted.minibatch;
  plan.rank = wanted.rank, plan.ranks = wanted.ranks;
  const auto nodes = normalizations(graph);
  for (const auto n : nodes) {
    const graph::Node& node = graph.nodes[n];
    const auto mean = values_of(network, graph.nodes[node.inputs[3]].name);
    const auto variance = values_of(network, graph.nodes[node.inputs[4]].name);
    network.plan_evaluation((wanted.minibatch + wanted.ranks - 1) / wanted.ranks, {graph.nodes[node.inputs[0]].name});
    Average average(mean.size());
    reader.start_epoch(plan);
    while (const Batch* batch = reader.next()) average.add(network.forward(*batch).at(0), world, wanted.ranks > 1);
    if (average.weight() == 0) throw Error(fmt::format("bnstat: no samples for '{}'", node.name));
    average.store(mean, variance);
    ++plan.epoch;
    log::line(fmt::format("Statistics of '{}' from {} values for each of {} means.", node.name, average.weight(),
                          mean.size()));
  }
  return nodes.size();
}

}  // namespace tutti
