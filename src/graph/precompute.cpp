// SPDX-License-Identifier: Apache-2.0
// Corpus statistics: mean and inverse deviation of a value over every sample, gathered in one pass. Running statistics
// over the ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "graph/network_impl.h"

namespace tutti {
namespace {

// The computed values are part of the model, and so is this flag.
constexpr const char* done = "precomputed";

bool open(const graph::Node& node) {
  return (node.operation == "Mean" || node.operation == "InvStdDev") && !graph::flag(node, done, false);
}

constexpr float least_variance = 1e-10f;

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
                          fmt::format("'{}' is a statistic of a value that depends on the statistic '{}'", node.name,
                                      m.graph.nodes[below].name),
                          "compute both statistics from inputs");
    const std::size_t n = m.values[index].shape.elements();
    m.gathering.push_back({index, 0, std::vector<float>(n), std::vector<float>(n)});
    roots.push_back(node.inputs[0]);
  }
  m.statistics = m.make(roots, {.criterion = {}, .training = false, .reuse_memory = m.options.reuse_memory});
}

// CNTK's recurrence, in single precision, one step per minibatch: mean and variance are weighted means of their old
// values and of the new samples. In double the statistics differ by 3e-7, which changes a run visibly.
void Network::precompute_accumulate(const Batch& batch) {
  Impl& m = *impl_;
  Executable& e = *m.statistics;
  for (const auto& part : m.parts(e, batch)) {
    m.attach(e, batch, part);
    e.program.forward(e.run);
    for (auto& statistic : m.gathering) {
      const graph::Operand& o = e.program.code().of_node.at(m.graph.nodes[statistic.node].inputs[0]);
      statistic.add(m.on_host(e.run.value(o), e.run.count(o), e.host[statistic.node]).data(), e.run.rows(o));
    }
  }
}

void Network::Impl::Statistic::add(const float* x, std::size_t rows) {
  if (rows == 0) return;
  const std::size_t n = mean.size();
  const float before = static_cast<float>(count);
  count += static_cast<double>(rows);
  const float after = static_cast<float>(count), alpha = 1.0f / after, beta = before / after;
  std::vector<float> moved = mean, sum(n), square(n);
  for (std::size_t c = 0; c < rows; ++c)
    for (std::size_t i = 0; i < n; ++i) sum[i] += x[c * n + i];
  for (std::size_t i = 0; i < n; ++i) {
    mean[i] = alpha * sum[i] + beta * mean[i];
    moved[i] -= mean[i];
  }
  for (std::size_t c = 0; c < rows; ++c)
    for (std::size_t i = 0; i < n; ++i) square[i] += (x[c * n + i] - mean[i]) * (x[c * n + i] - mean[i]);
  for (std::size_t i = 0; i < n; ++i) variance[i] = alpha * square[i] + beta * (variance[i] + moved[i] * moved[i]);
}

void Network::precompute_end(const std::function<void(std::span<float>)>& share) {
  Impl& m = *impl_;
  for (auto& statistic : m.gathering) {
    const std::size_t n = statistic.mean.size();
    graph::Node& node = m.graph.nodes[statistic.node];
    std::vector<float> all(n + 1);
    for (std::size_t i = 0; i < n; ++i)
      all[i] = node.operation == "Mean" ? statistic.mean[i]
                                        : 1.0f / std::sqrt(std::max(statistic.variance[i], least_variance));
    all[n] = statistic.count > 0 ? 1.0f : 0.0f;
    share(all);
    if (all[n] == 0) throw Error(fmt::format("computing '{}': the training data hold no samples", node.name));
    m.take_own_part(statistic.node, std::span(all).first(n), m.stored[m.store_of[statistic.node]].values.span());
    node.attributes[done] = true;
  }
  m.gathering.clear();
  m.statistics.reset();
}

void Network::precompute_restored(const graph::Graph& loaded) {
  std::set<std::string_view> computed;
  for (const graph::Node& node : loaded.nodes)
    if (graph::flag(node, done, false)) computed.insert(node.name);
  for (graph::Node& node : impl_->graph.nodes)
    if (open(node) && computed.contains(node.name)) node.attributes[done] = true;
}

std::vector<Network::State> Network::running_statistics() {
  Impl& m = *impl_;
  m.backend->synchronize();
  std::vector<State> all;
  for (const auto index : m.order) {
    const graph::Node& node = m.graph.nodes[index];
    if (node.operation != "BatchNormalization" ||
        (m.shard_of(node.inputs[3]) && !m.options.model_parallel.sum_over_same_parts))
      continue;
    for (const std::size_t n : {index, node.inputs[3], node.inputs[4]}) {
      auto& s = m.stored[m.store_of[n]];
      all.push_back({s.name, s.shape, s.values.span(), s.shard});
    }
  }
  return all;
}

namespace {

using SumOver = std::function<void(std::span<double>)>;

void average(std::span<const Network::State> states, const SumOver& sum) {
  // For each node: samples seen, then mean and variance times the samples, then the number of ranks.
  std::vector<double> all;
  const auto visit = [&](const auto& f) {
    for (std::size_t k = 0; k < states.size(); k += 3) f(states[k].values, states[k + 1].values, states[k + 2].values);
  };
  visit([&](auto count, auto mean, auto variance) {
    const double seen = graph::samples_seen(count.data());
    all.push_back(seen);
    for (const auto& values : {mean, variance})
      for (const float v : values) all.push_back(seen > 0 ? seen * static_cast<double>(v) : 0);
  });
  if (all.empty()) return;
  all.push_back(1);
  sum(all);
  const double ranks = all.back();
  std::size_t at = 0;
  visit([&](auto count, auto mean, auto variance) {
    const double seen = all[at++];
    for (auto& values : {mean, variance})
      for (float& v : values) {
        if (seen > 0) v = static_cast<float>(all[at] / seen);
        ++at;
      }
    graph::set_samples_seen(count.data(), std::round(seen / ranks));
  });
}

}  // namespace

// Running statistics of batch normalisation over the ranks: each rank has normalised, and counted, its own shares.
// Where a group has divided a layer, its ranks have the statistics of their parts.
void Network::average_statistics(const std::function<void(std::span<double>)>& sum) {
  std::vector<State> whole, parts;
  const std::vector<State> states = running_statistics();
  for (std::size_t k = 0; k < states.size(); k += 3) {
    auto& to = states[k + 1].shard ? parts : whole;
    to.insert(to.end(), {states[k], states[k + 1], states[k + 2]});
  }
  average(whole, sum);
  average(parts, impl_->options.model_parallel.sum_over_same_parts);
}

}  // namespace tutti
