// SPDX-License-Identifier: Apache-2.0
// library_gradients.h -- the gradients of every minibatch summed by the MPI library in one call after backward,
// without overlap or codec: what the exchanges of this folder are compared with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/parallel_method.h"

namespace tutti {

class LibraryGradients final : public GradientExchange {
 public:
  explicit LibraryGradients(Communicator& comm) : comm_(comm) {}
  void start(Parameters&) override;
  void begin_step(const StepInfo& step, ReducedGradientSink& sink) override { columns_ = step.columns, sink_ = &sink; }
  void chunk_ready(std::size_t) override {}
  void finish_step() override;

 private:
  void unite_lists();

  Communicator& comm_;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // their numbers
  std::vector<float> listed_;        // by sparse row: how many ranks list it
  ReducedGradientSink* sink_ = nullptr;
  std::int64_t columns_ = 0;
};

// `remark` about the exchange, for the settings printed at start.
ParallelMethod make_library_sums(Communicator&, const std::string& remark);

}  // namespace tutti
