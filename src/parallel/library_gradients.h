// SPDX-License-Identifier: Apache-2.0
// library_gradients.h -- sums the gradients of every minibatch with one call of the MPI library after backward, without
// overlap or codec: the baseline for the other exchanges.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/parallel_method.h"

namespace tutti {

class LibraryGradients final : public GradientExchange {
 public:
  // `print_every`: n = a line about every n-th sum; 0 = none.
  LibraryGradients(Communicator& comm, std::int64_t print_every) : comm_(comm), print_every_(print_every) {}
  void start(Parameters&) override;
  void begin_step(const StepInfo& step, ReducedGradientSink& sink) override { columns_ = step.columns, sink_ = &sink; }
  void chunk_ready(std::size_t) override {}
  void finish_step() override;

 private:
  void unite_lists();

  Communicator& comm_;
  const std::int64_t print_every_;
  std::int64_t sums_ = 0;
  Parameters* parameters_ = nullptr;
  std::vector<std::size_t> chunks_;  // indices of all chunks
  std::vector<float> listed_;        // by sparse row: number of ranks that list it
  ReducedGradientSink* sink_ = nullptr;
  std::int64_t columns_ = 0;
};

// `remark` is printed with the settings at start.
ParallelMethod make_library_sums(Communicator&, std::int64_t print_every, const std::string& remark);

}  // namespace tutti
