// SPDX-License-Identifier: Apache-2.0
// Adam, AdamW, LAMB and 1-bit Adam (semantics: docs/optimizers.md).
#include <fmt/format.h>

#include <cmath>

#include "optim/rules.h"
#include "tutti/log.h"

namespace tutti::optim {
namespace {

// Kingma and Ba 2015, on the mean gradient g/N with step size lr * N: learningRatesPerMB is the paper's alpha for a
// full minibatch.
class AdamRule : public Rule {
 public:
  AdamRule(const OptimizerOptions& o, const Kernels& k)
      : AdamRule("adam", fmt::format("Adam, beta1 {}, beta2 {}, epsilon {:g}", o.beta1, o.beta2, as_float(o.epsilon)),
                 o, k) {}
  void begin_step(const StepScalars& s) override {
    ++steps_;
    correct(s, steps_);
  }
  void apply(const Run& r, float rate) override {
    constants_.rate = as_float(rate * step_factor_);
    k_.run(Adam{weights(r), gradients(r), state(0, r), state(1, r), constants_}, r.count);
  }
  void archive(Archive& a) override {
    a("steps", steps_);
    Rule::archive(a);
  }

 protected:
  AdamRule(std::string name, std::string description, const OptimizerOptions& o, const Kernels& k)
      : Rule(std::move(name), std::move(description), k, {"momentum", "squares"}),
        beta1_(o.beta1),
        beta2_(o.beta2),
        constants_{as_float(o.beta1), as_float(o.beta2), 0, 0, 0, as_float(o.epsilon)} {}
  // The bias corrections after steps_ steps, of which the variance took part in `squared`.
  void correct(const StepScalars& s, std::int64_t squared) {
    n_ = static_cast<double>(s.columns);
    step_factor_ = n_ / (1 - std::pow(beta1_, static_cast<double>(steps_)));
    constants_.inverse_n = as_float(1 / n_);
    constants_.root_correction = as_float(1 / std::sqrt(1 - std::pow(beta2_, static_cast<double>(squared))));
  }

  const double beta1_, beta2_;
  AdamConstants constants_;
  double n_ = 0, step_factor_ = 0;
  std::int64_t steps_ = 0;
};

// Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
class AdamWRule final : public AdamRule {
 public:
  AdamWRule(const OptimizerOptions& o, const Kernels& k)
      : AdamRule("adamW",
                 fmt::format("AdamW, beta1 {}, beta2 {}, epsilon {:g}, weight decay {:g}", o.beta1, o.beta2,
                             as_float(o.epsilon), o.weight_decay),
                 o, k),
        decay_(o.weight_decay) {}
  void apply(const Run& r, float rate) override {
    constants_.rate = as_float(rate * step_factor_);
    const float keep = as_float(1 - static_cast<double>(rate) * n_ * decay_ * r.decay);
    k_.run(AdamW{weights(r), gradients(r), state(0, r), state(1, r), constants_, keep}, r.count);
  }

 private:
  const double decay_;
};

// You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020. The function phi of
// the paper is the identity. Vectors, and parameters without regularisation, are updated as by Adam.
class LambRule final : public AdamRule {
 public:
  LambRule(const OptimizerOptions& o, const Kernels& k)
      : AdamRule("lamb",
                 fmt::format("LAMB, beta1 {}, beta2 {}, epsilon {:g}, weight decay {:g}", o.beta1, o.beta2,
                             as_float(o.epsilon), o.weight_decay),
                 o, k),
        decay_(o.weight_decay) {}
  Sums sums() const override { return Sums::scaled_and_weights; }
  bool needs_sums(const Slice& s) const override { return !s.vector && s.regularization_multiplier > 0; }
  void scale(const Run& r, double* sum) override {
    AdamConstants c = constants_;
    c.rate = as_float(step_factor_ / n_);
    k_.run(LambDirection{weights(r), gradients(r), state(0, r), state(1, r), c, as_float(decay_ * r.decay)}, r.count,
           sum);
  }
  void descend(const Run& r, float rate, const ParameterSums& s) override {
    k_.run(DescendByTrust{weights(r), gradients(r), as_float(rate * n_), s.weights, s.scaled}, r.count);
  }

 private:
  const double decay_;
};

// 1-bit Adam (Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed",
// ICML 2021): Adam up to the end of the warm-up. Then the variance is frozen, which leaves momentum SGD with a rate per
// weight, and the ranks sum momentum, with the exchange's number of bits.
class OneBitAdamRule final : public AdamRule {
 public:
  OneBitAdamRule(const OptimizerOptions& o, const Kernels& k)
      : AdamRule("oneBitAdam",
                 fmt::format("1-bit Adam, beta1 {}, beta2 {}, epsilon {:g}, variance of the first {} samples", o.beta1,
                             o.beta2, as_float(o.epsilon), o.warmup_samples),
                 o, k),
        warmup_samples_(o.warmup_samples) {}

  Summed summed() const override {
    return samples_ < warmup_samples_ ? Summed::gradients_in_full : Summed::contributions;
  }
  bool wants_contributions() const override { return true; }
  const float* mask() const override { return buffers_[1].data(); }
  double unit() const override { return frozen_ ? (1 - beta1_) * inverse_n_ : 1; }

  void begin_step(const StepScalars& s) override {
    frozen_ = samples_ >= warmup_samples_;
    if (frozen_ && samples_when_frozen_ == 0) {
      samples_when_frozen_ = samples_;
      log::line(fmt::format(
          "oneBitAdam: the variance is frozen after {} samples; from now on the ranks exchange momentum.", samples_));
    }
    samples_ += s.columns;
    ++steps_;
    if (!frozen_) ++warm_steps_;
    inverse_n_ = 1 / static_cast<double>(s.columns);
    correct(s, warm_steps_);
  }

  // Summed over all ranks: beta1 m + (1 - beta1) g/N. Rows of sparse gradients are known only to ranks that list them,
  // while the momentum there concerns all ranks.
  void contribute(const Run& r, int ranks) override {
    const double share = r.sparse ? 0 : beta1_ / ranks;
    k_.run(Contribute{gradients(r), state(0, r), state(1, r), as_float(share), as_float((1 - beta1_) * inverse_n_)},
           r.count);
  }

  void apply(const Run& r, float rate) override {
    if (!frozen_) return AdamRule::apply(r, rate);
    AdamConstants c = constants_;
    c.rate = as_float(rate * step_factor_);
    if (!r.sparse) c.beta1 = 0;  // it is in the sum
    k_.run(FrozenAdam{weights(r), gradients(r), state(0, r), state(1, r), c}, r.count);
  }

  void archive(Archive& a) override {
    a("steps", steps_);
    a("warm steps", warm_steps_);
    a("samples", samples_);
    a("samples when frozen", samples_when_frozen_);
    Rule::archive(a);
  }

 private:
  const std::int64_t warmup_samples_;
  double inverse_n_ = 0;
  bool frozen_ = false;  // in the step that was begun last
  std::int64_t warm_steps_ = 0, samples_ = 0, samples_when_frozen_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_adam(const OptimizerOptions& o, const Kernels& k) {
  if (o.rule == UpdateRule::one_bit_adam) return std::make_unique<OneBitAdamRule>(o, k);
  if (o.rule == UpdateRule::adam_w) return std::make_unique<AdamWRule>(o, k);
  if (o.rule == UpdateRule::lamb) return std::make_unique<LambRule>(o, k);
  return std::make_unique<AdamRule>(o, k);
}

}  // namespace tutti::optim
