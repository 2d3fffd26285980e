// SPDX-License-Identifier: Apache-2.0
// loop_run.h -- runs a loop: its kernels one step after the other, on the block of columns of the step.
#pragma once

#include <memory>
#include <vector>

#include "graph/loops.h"

namespace tutti::graph {

class LoopRun {
 public:
  // [first, last) of the kernels.
  LoopRun(const Loop& loop, const std::vector<std::unique_ptr<Kernel>>& kernels);

  std::size_t first() const { return loop_.first; }
  std::size_t last() const { return loop_.last; }
  std::size_t axis() const { return loop_.axis; }

  void forward(Run&, const std::vector<std::unique_ptr<Kernel>>& kernels) const;
  void backward(Run&, const std::vector<std::unique_ptr<Kernel>>& kernels) const;

  std::vector<std::size_t> active;  // members with a part in backward, last first
  std::vector<Operand> cleared;     // gradients that steps add to and that nothing outside writes first

 private:
  // A tensor with a block per step, and the floats per column of its workspace.
  struct Moving {
    std::size_t tensor, elements, work;
  };
  class Position;

  Loop loop_;
  std::vector<Moving> moving_;
};

}  // namespace tutti::graph
