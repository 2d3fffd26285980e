// SPDX-License-Identifier: Apache-2.0
// The criterion of language models whose words are grouped into classes.
#include "tutti/class_loss.h"
#include "graph/kernels/makers.h"

namespace tutti::graph {
namespace {

class ClassCriterion : public Kernel {
 public:
  explicit ClassCriterion(Instruction i) : Kernel(std::move(i)) {
    differentiable[label] = false;
    reads_output = false;
    sums_in_double = true;
    work_like = label;
  }
  void forward(Run& run) const override {
    run.backend.class_loss(described(run), run.work[code.out.tensor], &run.sums[code.out.tensor], out(run));
  }
  void backward(Run& run) const override {
    using enum ClassLoss::Operand;
    for (const auto& [k, operand] : {std::pair{1, state}, std::pair{2, weight}, std::pair{3, scores}}) {
      const auto input = static_cast<std::size_t>(k);
      if (write[input] != Write::none)
        run.backend.class_loss_gradient(described(run), operand, run.work[code.out.tensor], out_gradient(run),
                                         in_gradient(run, input), adds(run, input));
    }
  }

 private:
  static constexpr int label = 0;

  ClassLoss described(const Run& run) const {
    const Operand &z = code.in[1], &w = code.in[2], &scores = code.in[3];
    return {run.rows(z), z.elements, w.shape[1], scores.elements, in(run, 0), in(run, 1), in(run, 2), in(run, 3)};
  }
};

}  // namespace

std::unique_ptr<Kernel> make_class_loss(Instruction i) { return std::make_unique<ClassCriterion>(std::move(i)); }

}  // namespace tutti::graph
