// SPDX-License-Identifier: Apache-2.0
// gradient_sums.h -- the gradients of every minibatch summed by a library in one call after backward, without overlap
// or codec: what the exchanges of this folder are compared with. MPI, or NCCL where every rank has a GPU of its own.
#pragma once

#include "comm/agreement.h"
#include "comm/device_sums.h"
#include "strategy/local.h"
#include "strategy/tally_exchange.h"
#include "tutti/strategy.h"

namespace tutti {

class LibrarySums : public Strategy {
 public:
  explicit LibrarySums(Communicator& comm) : comm_(comm), tallies_(comm) {}
  void start(Parameters&) override;
  bool follows_device() const override { return device_sums_ != nullptr; }
  void begin_step(std::int64_t columns, GlobalSink& global) override { columns_ = columns, global_ = &global; }
  bool leaves_out_steps() const override { return true; }
  bool agree(bool usable) override { return all_agree(comm_, usable); }
  void piece_ready(std::size_t) override {}
  void finish_gradients(Tally&) override;
  ExchangeStats take_stats() override;
  std::string describe() const override;

 private:
  Communicator& comm_;
  TallyExchange tallies_;
  std::unique_ptr<DeviceSums> device_sums_;  // of gradients in the memory of GPUs, where their library can
  Parameters* parameters_ = nullptr;
  std::vector<std::vector<std::uint32_t>> all_lines_;  // by slice with a sparse gradient
  GlobalSink* global_ = nullptr;
  std::int64_t columns_ = 0;
  ExchangeStats stats_;
};

}  // namespace tutti
