// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_gradients.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti {

void broadcast_weights(Communicator& comm, Parameters& parameters) {
  parameters.weights.memory().synchronize();
  std::size_t common = parameters.size();
  for (const Slice& s : parameters.slices)
    if (s.shard) common = std::min(common, s.offset);
  if (comm.size() > 1) comm.broadcast(0, std::as_writable_bytes(parameters.weights.span().first(common)));
}

std::vector<std::size_t> all_chunks(const Parameters& parameters) {
  std::vector<std::size_t> numbers(parameters.chunks.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

void LocalGradients::begin_step(const StepInfo& step, ReducedGradientSink& sink) {
  columns_ = step.columns, sink_ = &sink;
  contributes_ = sink.summed(columns_) == Summed::contributions;
}

void LocalGradients::chunk_ready(std::size_t chunk) {
  if (contributes_) sink_->contribute(chunk, columns_, 1);
  sink_->on_reduced(chunk, columns_);
}

void LocalGradients::chunks_ready(std::span<const std::size_t> chunks) {
  if (contributes_)
    for (const std::size_t chunk : chunks) sink_->contribute(chunk, columns_, 1);
  sink_->on_reduced(chunks, columns_);
}

ParallelMethod NoExchange::make(const MethodContext& context) const {
  const Communicator& comm = context.comm;
  ParallelMethod m;
  m.gradients = std::make_unique<LocalGradients>();
  m.data.share = m.data.unit_share = {comm.rank(), comm.size()};
  m.traits.sums_contributions = true;
  m.traits.text = "no exchange";
  return m;
}

ParallelMethod make_local_sgd(std::unique_ptr<WeightExchange> weights, std::string text, Communicator& comm) {
  ParallelMethod m = NoExchange().make({comm});
  m.weights = std::move(weights);
  m.metrics.at_drain = &comm;
  m.traits.own_updates = true;
  m.traits.sums_contributions = false;
  m.traits.text = std::move(text);
  return m;
}

}  // namespace tutti
