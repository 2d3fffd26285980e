// SPDX-License-Identifier: Apache-2.0
// Corpus statistics before the first epoch (semantics 6, 8.5), each rank over its share of the data.
#include <fmt/format.h>

#include "train/training.h"
#include "tutti/log.h"

namespace tutti {

void precompute(Network& network, Reader& reader, Communicator& world, std::int64_t samples, std::int64_t minibatch) {
  const auto nodes = network.precompute_nodes();
  if (nodes.empty()) return;
  log::line("");
  log::line(fmt::format("Precomputing --> {} PreCompute nodes found.", nodes.size()));
  log::line("");
  for (const auto& name : nodes) log::line(fmt::format("\t{}", name));
  network.bind(reader.streams());
  network.precompute_begin();
  EpochPlan plan;
  plan.samples = samples;
  plan.minibatch = minibatch;
  plan.rank = world.rank();
  plan.ranks = world.size();
  reader.start_epoch(plan);
  while (const Batch* batch = reader.next()) network.precompute_accumulate(*batch);
  network.precompute_end([&](std::span<double> sums) { world.all_reduce_sum(sums); });
  log::line("");
  log::line("Precomputing --> Completed.");
  log::line("");
}

}  // namespace tutti
