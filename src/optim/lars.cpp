// SPDX-License-Identifier: Apache-2.0
// LARS (You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017) with unit-gain momentum; vectors,
// and parameters without regularisation, are updated as by SGD with momentum. Semantics: docs/optimizers.md.
#include <fmt/format.h>

#include <cmath>

#include "optim/rules.h"

namespace tutti::optim {
namespace {

class LarsRule final : public Rule {
 public:
  LarsRule(const OptimizerOptions& o, const Kernels& k)
      : Rule("lars", fmt::format("LARS, coefficient {:g}, weight decay {:g}", o.trust_coefficient, o.weight_decay), k,
             {"momentum"}),
        coefficient_(o.trust_coefficient),
        decay_(o.weight_decay) {}

  void begin_step(const StepScalars& s) override {
    n_ = static_cast<double>(s.columns);
    mu_ = as_float(std::pow(s.momentum_per_sample, n_));
  }
  void apply(const Run& r, float rate) override {
    k_.run(Momentum{weights(r), gradients(r), state(0, r), mu_, (1.0f - mu_) * rate, 1.0f}, r.count);
  }

  Sums sums() const override { return Sums::scaled_and_weights; }
  bool needs_sums(const Slice& s) const override { return !s.vector && s.regularization_multiplier > 0; }
  void scale(const Run& r, double* sum) override { k_.run(Mean{gradients(r), as_float(1 / n_)}, r.count, sum); }
  void descend(const Run& r, float rate, const ParameterSums& s) override {
    k_.run(Lars{weights(r), gradients(r), state(0, r), mu_, as_float((1.0f - mu_) * (rate * n_)),
                as_float(coefficient_), as_float(decay_ * r.decay), s.weights, s.scaled},
           r.count);
  }

 private:
  const double coefficient_, decay_;
  double n_ = 0;
  float mu_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_lars(const OptimizerOptions& o, const Kernels& k) {
  return std::make_unique<LarsRule>(o, k);
}

}  // namespace tutti::optim
