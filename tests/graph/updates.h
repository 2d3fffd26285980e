// SPDX-License-Identifier: Apache-2.0
// updates.h -- momentum and a penalty of the weights, where the weights are, at once for each piece.
#pragma once

#include <memory>
#include <span>

#include "optim/optimizer_options.h"
#include "tutti/network.h"

namespace tutti {

class Updates final : public PieceSink {
 public:
  explicit Updates(Network& network, double penalty = 0) : optimizer_(make_optimizer({.l2 = penalty})) {
    optimizer_->bind(network.parameters());
  }
  void begin(const Batch& batch) { optimizer_->begin_step({0.05, 0.9, batch.samples}); }
  bool follows_device() const override { return true; }
  void piece_ready(std::size_t piece) override { optimizer_->update(piece); }
  void pieces_ready(std::span<const std::size_t> pieces) override { optimizer_->update_all(pieces); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace tutti
