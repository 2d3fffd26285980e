// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/program.h"

namespace tutti::graph {

// Moves the pointers of the run from block to block, and back to the whole at the end.
class LoopRun::Position {
 public:
  Position(const LoopRun& loop, Run& run) : loop_(loop), run_(run), columns_(run.columns[loop.loop_.axis]) {}
  ~Position() {
    move(0);
    run_.columns[loop_.loop_.axis] = columns_;
    run_.step = Run::all_steps;
    run_.skipped = 0;
  }
  Position(const Position&) = delete;

  void go(std::size_t step) {
    const SequenceTable& table = run_.sequences[loop_.loop_.axis];
    move(table.begin(step));
    run_.columns[loop_.loop_.axis] = table.width(step);
    run_.step = step;
    run_.skipped = table.begin(step);
  }

 private:
  void move(std::size_t column) {
    const auto by = static_cast<std::ptrdiff_t>(column) - static_cast<std::ptrdiff_t>(column_);
    for (const Moving& m : loop_.moving_) {
      const std::ptrdiff_t step = by * static_cast<std::ptrdiff_t>(m.elements);
      if (run_.values[m.tensor]) run_.values[m.tensor] += step;
      if (run_.gradients[m.tensor]) run_.gradients[m.tensor] += step;
      if (m.work && run_.work[m.tensor]) run_.work[m.tensor] += by * static_cast<std::ptrdiff_t>(m.work);
    }
    column_ = column;
  }

  const LoopRun& loop_;
  Run& run_;
  std::size_t columns_, column_ = 0;
};

LoopRun::LoopRun(const Loop& loop, const std::vector<std::unique_ptr<Kernel>>& kernels) : loop_(loop) {
  const auto add = [&](const Operand& o, std::size_t work) {
    if (!o.per_sample || o.axis != loop_.axis) return;
    const auto found =
        std::find_if(moving_.begin(), moving_.end(), [&](const Moving& m) { return m.tensor == o.tensor; });
    if (found == moving_.end())
      moving_.push_back({o.tensor, o.elements, work});
    else
      found->work = std::max(found->work, work);
  };
  for (std::size_t i = loop_.first; i < loop_.last; ++i) {
    const Kernel& kernel = *kernels[i];
    for (const auto& o : kernel.code.in) add(o, 0);
    add(kernel.code.out, kernel.work_like < 0 ? kernel.work_per_column
                                              : kernel.code.in[static_cast<std::size_t>(kernel.work_like)].elements);
  }
}

void LoopRun::forward(Run& run, const std::vector<std::unique_ptr<Kernel>>& kernels) const {
  const std::size_t steps = run.sequences[loop_.axis].steps();
  {
    Position position(*this, run);
    for (std::size_t s = 0; s < steps; ++s) {
      position.go(loop_.backwards ? steps - 1 - s : s);
      for (std::size_t i = loop_.first; i < loop_.last; ++i) kernels[i]->forward(run);
    }
  }
  for (std::size_t i = loop_.first; i < loop_.last; ++i) kernels[i]->end_of_steps(run);
}

void LoopRun::backward(Run& run, const std::vector<std::unique_ptr<Kernel>>& kernels) const {
  for (const auto& o : cleared)
    if (run.first_part || run.chunks[o.tensor].empty()) run.backend.fill(0, run.gradient(o), run.count(o));
  const std::size_t steps = run.sequences[loop_.axis].steps();
  Position position(*this, run);
  for (std::size_t s = 0; s < steps; ++s) {
    position.go(loop_.backwards ? s : steps - 1 - s);
    for (const auto i : active) kernels[i]->backward(run);
  }
}

}  // namespace tutti::graph
