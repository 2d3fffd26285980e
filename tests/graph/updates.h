// SPDX-License-Identifier: Apache-2.0
// updates.h -- momentum and a penalty of the weights, where the weights are, at once for each chunk.
#pragma once

#include <memory>
#include <span>

#include "optim/optimizer_options.h"
#include "tutti/network.h"

namespace tutti {

class Updates final : public GradientSink {
 public:
  explicit Updates(Network& network, double penalty = 0) : optimizer_(make_optimizer({.l2 = penalty})) {
    optimizer_->bind(network.parameters());
  }
  void begin(const Batch& batch) { optimizer_->begin_step({0.05, 0.9, batch.samples}); }
  bool follows_device() const override { return true; }
  void chunk_ready(std::size_t chunk) override { optimizer_->update(chunk); }
  void chunks_ready(std::span<const std::size_t> chunks) override { optimizer_->update_all(chunks); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace tutti
