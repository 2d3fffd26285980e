// SPDX-License-Identifier: Apache-2.0
// local_gradients.h -- no gradient exchange: each rank updates with its own gradients.
#pragma once

#include <vector>

#include "parallel/method_context.h"

namespace tutti {

// Broadcasts rank 0's weights, without those of which every rank holds another part.
void broadcast_weights(Communicator&, Parameters&);

// The indices of all chunks, to announce runs of them together.
std::vector<std::size_t> all_chunks(const Parameters&);

class LocalGradients final : public GradientExchange {
 public:
  void start(Parameters&) override {}
  void begin_step(const StepInfo&, ReducedGradientSink&) override;
  bool follows_device() const override { return true; }  // only the optimizer reads the gradients
  void chunk_ready(std::size_t chunk) override;
  void chunks_ready(std::span<const std::size_t> chunks) override;

 private:
  std::int64_t columns_ = 0;
  bool contributes_ = false;
  ReducedGradientSink* sink_ = nullptr;
};

// Every rank trains on its own with all data.
struct NoExchange {
  static constexpr const char* name = "none";
  static constexpr const char* help = "every rank trains alone, on all data";
  MethodTraits traits() const { return {}; }
  ParallelMethod make(const MethodContext&) const;
};
// Every rank trains on its share of the data with its own gradients, and `weights` brings the ranks together.
ParallelMethod make_local_sgd(std::unique_ptr<WeightExchange> weights, std::string text, Communicator&);

}  // namespace tutti
