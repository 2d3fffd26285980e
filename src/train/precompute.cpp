// SPDX-License-Identifier: Apache-2.0
// Corpus statistics before the first epoch (semantics 6, 8.5). Rank 0 reads all data, minibatch by minibatch as CNTK
// does, so the numbers are those of a single process for any number of ranks.
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
  if (world.rank() == 0) {
    EpochPlan plan;
    plan.samples = samples;
    plan.minibatch = minibatch;
    reader.start_epoch(plan);
    while (const Batch* batch = reader.next()) network.precompute_accumulate(*batch);
  }
  network.precompute_end([&](std::span<float> values) { world.broadcast(0, std::as_writable_bytes(values)); });
  log::line("");
  log::line("Precomputing --> Completed.");
  log::line("");
}

}  // namespace tutti
