// SPDX-License-Identifier: Apache-2.0
// 1-bit Adam (Tang et al., "1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed",
// ICML 2021): Adam up to the end of the warm-up. Then the variance is frozen, which leaves momentum SGD with a rate per
// weight, and the ranks sum momentum, with the exchange's number of bits.
#include <fmt/format.h>

#include <cmath>

#include "optim/rules.h"
#include "tutti/log.h"

namespace tutti::optim {

namespace {

class OneBitAdam final : public Rule {
 public:
  OneBitAdam(const OptimizerOptions& o, const Kernels& k)
      : k_(k),
        beta1_(o.beta1),
        beta2_(o.beta2),
        epsilon_(static_cast<float>(o.epsilon)),
        warmup_samples_(o.warmup_samples) {}

  std::string name() const override { return "oneBitAdam"; }
  std::string describe() const override {
    return fmt::format("1-bit Adam, beta1 {}, beta2 {}, epsilon {:g}, variance of the first {} samples", beta1_, beta2_,
                       epsilon_, warmup_samples_);
  }

  void bind(Parameters& p) override {
    p_ = &p;
    mean_ = FloatBuffer(p.size(), p.weights);
    square_ = FloatBuffer(p.size(), p.weights);
  }

  Summed summed() const override {
    return samples_ < warmup_samples_ ? Summed::gradients_in_full : Summed::contributions;
  }
  bool wants_contributions() const override { return true; }
  const float* mask() const override { return square_.data(); }
  double unit() const override { return frozen_ ? (1 - beta1_) * inverse_n_ : 1; }

  void begin_step(const StepScalars& s) override {
    const double n = static_cast<double>(s.columns);
    frozen_ = samples_ >= warmup_samples_;
    if (frozen_ && samples_when_frozen_ == 0) {
      samples_when_frozen_ = samples_;
      log::line(fmt::format(
          "oneBitAdam: the variance is frozen after {} samples; from now on the ranks exchange momentum.", samples_));
    }
    samples_ += s.columns;
    ++steps_;
    if (!frozen_) ++warm_steps_;
    inverse_n_ = 1 / n;
    step_factor_ = n / (1 - std::pow(beta1_, static_cast<double>(steps_)));
    constants_ = {static_cast<float>(beta1_),
                  static_cast<float>(beta2_),
                  static_cast<float>(inverse_n_),
                  0,
                  static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, static_cast<double>(warm_steps_)))),
                  epsilon_};
  }

  // Summed over all ranks: beta1 m + (1 - beta1) g/N. Rows of sparse gradients are known only to ranks that list them,
  // while the momentum there concerns all ranks.
  void contribute(const Run& r, int ranks) override {
    const double share = r.sparse ? 0 : beta1_ / ranks;
    k_.contribute(p_->gradients.data() + r.offset, mean_.data() + r.offset, square_.data() + r.offset, r.count,
                  static_cast<float>(share), static_cast<float>((1 - beta1_) * inverse_n_));
  }

  void apply(const Run& r, float rate) override {
    float* const w = p_->weights.data() + r.offset;
    const float* const g = p_->gradients.data() + r.offset;
    AdamConstants c = constants_;
    c.rate = static_cast<float>(rate * step_factor_);
    if (!frozen_) return k_.adam(w, g, mean_.data() + r.offset, square_.data() + r.offset, r.count, c);
    if (!r.sparse) c.beta1 = 0;  // it is in the sum
    k_.frozen_adam(w, g, mean_.data() + r.offset, square_.data() + r.offset, r.count, c);
  }

  void reset_momentum() override { k_.clear(mean_.data(), mean_.size()); }

  void archive(Archive& a) override {
    a("steps", steps_);
    a("warm steps", warm_steps_);
    a("samples", samples_);
    a("samples when frozen", samples_when_frozen_);
    archive_buffer(a, "momentum", *p_, mean_);
    archive_buffer(a, "squares", *p_, square_);
  }

 private:
  const Kernels& k_;
  const double beta1_, beta2_;
  const float epsilon_;
  const std::int64_t warmup_samples_;
  Parameters* p_ = nullptr;
  FloatBuffer mean_, square_;
  AdamConstants constants_{};
  double step_factor_ = 0, inverse_n_ = 0;
  bool frozen_ = false;  // in the step that was begun last
  std::int64_t steps_ = 0, warm_steps_ = 0, samples_ = 0, samples_when_frozen_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_one_bit_adam_rule(const OptimizerOptions& o, const Kernels& k) {
  return std::make_unique<OneBitAdam>(o, k);
}

}  // namespace tutti::optim
