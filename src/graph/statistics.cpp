// SPDX-License-Identifier: Apache-2.0
// Running statistics of batch normalisation over the ranks: each rank has normalised, and counted, its own shares.
#include <cmath>

#include "graph/network_impl.h"
#include "graph/samples_seen.h"

namespace tutti {

void Network::average_statistics(const std::function<void(std::span<double>)>& sum) {
  Impl& m = *impl_;
  m.backend->synchronize();
  // For each node: samples seen, then mean and variance times the samples, then the number of ranks.
  std::vector<double> all;
  const auto visit = [&](const auto& f) {
    for (const auto index : m.order) {
      const graph::Node& node = m.graph.nodes[index];
      if (node.operation != "BatchNormalization") continue;
      const auto values = [&](std::size_t n) { return m.stored[m.store_of[n]].values.span(); };
      f(values(index), values(node.inputs[3]), values(node.inputs[4]));
    }
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

}  // namespace tutti
