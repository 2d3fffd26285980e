// SPDX-License-Identifier: Apache-2.0
// Reductions and the softmax family along an axis of the sample, and criteria, which sum over all samples.
#include <fmt/format.h>

#include <map>

#include "graph/kernels/makers.h"
#include "graph/shapes.h"
#include "tutti/class_loss.h"

namespace tutti::graph {
namespace {

int axis_of(const Instruction& i, std::size_t operand) {
  return number(i.node, "axis", 0) == 0 ? -1
                                        : static_cast<int>(axis_index(i.node, "axis", 0, i.in[operand].shape.rank()));
}

class Reduce : public Kernel {
 public:
  explicit Reduce(Instruction i)
      : Kernel(std::move(i)), op_(operation(text(code.node, "op", "Sum"))), axis_(axis_of(code, 0)) {
    const bool linear = op_ == ReduceOp::sum || op_ == ReduceOp::mean;
    reads_output = !linear;
    reads_input[0] = !linear;
  }
  void forward(Run& run) const override {
    run.backend.reduce(op_, extent_along(run, code.in[0], axis_), in(run, 0), out(run));
  }
  void backward(Run& run) const override {
    run.backend.reduce_gradient(op_, extent_along(run, code.in[0], axis_), in(run, 0), out(run), out_gradient(run),
                                in_gradient(run, 0), adds(run, 0));
  }

 private:
  static ReduceOp operation(const std::string& name) {
    static const std::map<std::string, ReduceOp> names = {{"Sum", ReduceOp::sum},
                                                          {"LogSum", ReduceOp::log_sum},
                                                          {"Mean", ReduceOp::mean},
                                                          {"Min", ReduceOp::min},
                                                          {"Max", ReduceOp::max}};
    return names.at(name);
  }
  ReduceOp op_;
  int axis_;
};

class Softmax : public Kernel {
 public:
  Softmax(SoftmaxOp op, Instruction i) : Kernel(std::move(i)), op_(op), axis_(axis_of(code, 0)) {
    reads_input[0] = false;
    reads_output = op != SoftmaxOp::hardmax;
    differentiable[0] = op != SoftmaxOp::hardmax;
  }
  void forward(Run& run) const override {
    run.backend.softmax(op_, extent_along(run, code.in[0], axis_), in(run, 0), out(run));
  }
  void backward(Run& run) const override {
    run.backend.softmax_gradient(op_, extent_along(run, code.in[0], axis_), out(run), out_gradient(run),
                                 in_gradient(run, 0), adds(run, 0));
  }

 private:
  SoftmaxOp op_;
  int axis_;
};

class Criterion : public Kernel {
 public:
  Criterion(LossOp op, Instruction i)
      : Kernel(std::move(i)), top_(static_cast<std::size_t>(number(code.node, "topN", 1))) {
    loss_.op = op;
    data_ = code.in.size() > 1 ? 1 : 0;
    axis_ = axis_of(code, data_);
    reads_output = false;
    sums_in_double = true;
    const bool softmax = op == LossOp::cross_entropy_with_softmax;
    if (softmax) work_like = 1;
    differentiable.assign(code.in.size(), op != LossOp::classification_error);
    if (op == LossOp::sum) reads_input[0] = false;
    if (softmax) reads_input[1] = false;
  }
  // CNTK has no such gradient either and stops.
  void connect(std::span<const std::unique_ptr<Kernel>>) override {
    if (loss_.op != LossOp::logistic && loss_.op != LossOp::weighted_logistic) return;
    for (std::size_t k = 0; k < code.in.size(); ++k)
      if (k != data_ && write[k] != Write::none)
        fail(code.node,
             fmt::format("its {} depends on trained parameters, which would get no gradient from it",
                         k == 0 ? "label" : "weight"),
             "make the trained value the second operand, or set learningRateMultiplier = 0 for these parameters");
  }
  void forward(Run& run) const override {
    const auto values = operands(run);
    run.backend.loss(described(run), {values.data(), code.in.size()}, work(run), &run.sums[code.out.tensor], out(run));
  }
  void backward(Run& run) const override {
    const auto values = operands(run);
    for (std::size_t k = 0; k < code.in.size(); ++k)
      if (write[k] != Write::none)
        run.backend.loss_gradient(described(run), k, {values.data(), code.in.size()}, work(run), out_gradient(run),
                                  in_gradient(run, k), adds(run, k));
  }

 private:
  Loss described(const Run& run) const {
    Loss loss = loss_;
    loss.extent = extent_along(run, code.in[data_], axis_);
    loss.top = top_;
    if (code.in[data_].elements > 0) loss.sample_lines = code.in[data_].elements / loss.extent.size;
    if (code.in.size() > 2) loss.weight_size = code.in[2].elements;
    return loss;
  }
  float* work(const Run& run) const { return work_like < 0 ? nullptr : run.work[code.out.tensor]; }

  Loss loss_;
  std::size_t top_, data_ = 0;
  int axis_ = -1;
};

// The criterion of language models whose words are grouped into classes.
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

Extent extent_along(const Run& run, const Operand& o, int axis) {
  Extent e{run.rows(o), o.elements, 1};
  if (axis < 0) return e;
  e.size = o.shape[static_cast<std::size_t>(axis)];
  for (int k = 0; k < axis; ++k) e.inner *= o.shape[static_cast<std::size_t>(k)];
  e.outer *= o.elements / (e.size * e.inner);
  return e;
}

void list_reductions(Makers& makers) {
  makers.insert({{"Softmax", make<Softmax, SoftmaxOp::softmax>},
                 {"LogSoftmax", make<Softmax, SoftmaxOp::log_softmax>},
                 {"Hardmax", make<Softmax, SoftmaxOp::hardmax>},
                 {"ReduceElements", make<Reduce>},
                 {"CrossEntropyWithSoftmax", make<Criterion, LossOp::cross_entropy_with_softmax>},
                 {"ClassificationError", make<Criterion, LossOp::classification_error>},
                 {"CrossEntropy", make<Criterion, LossOp::cross_entropy>},
                 {"SquareError", make<Criterion, LossOp::square_error>},
                 {"Logistic", make<Criterion, LossOp::logistic>},
                 {"WeightedLogistic", make<Criterion, LossOp::weighted_logistic>},
                 {"SumElements", make<Criterion, LossOp::sum>},
                 {"MatrixL1Reg", make<Criterion, LossOp::sum_abs>},
                 {"ClassBasedCrossEntropyWithSoftmax", make<ClassCriterion>}});
}

}  // namespace tutti::graph
