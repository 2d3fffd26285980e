// SPDX-License-Identifier: Apache-2.0
// Rules with a rate per element: adagrad, rmsProp and fsAdagrad as in CNTK, adam, and textbook RMSProp.
#include <fmt/format.h>

#include <cmath>

#include "optim/rules.h"

namespace tutti::optim {

namespace {

// Rules that scale a gradient in place, then descend by it, and may divide by the mean multiplier.
class ScalingRule : public Rule {
 public:
  ScalingRule(const OptimizerOptions& o, const Kernels& k) : k_(k), averages_(o.norm_with_average) {}
  bool averages() const final { return averages_; }
  void begin_step(const StepScalars&) final {}
  void apply(const Run& r, float rate) final {
    scale(r, nullptr);
    k_.descend(p_->weights.data() + r.offset, p_->gradients.data() + r.offset, r.count, rate);
  }
  void apply_by_mean(const Run& r, float rate, const double* sum, std::size_t count) final {
    k_.descend_by_mean(p_->weights.data() + r.offset, p_->gradients.data() + r.offset, r.count, rate, sum, count);
  }

 protected:
  const Kernels& k_;
  const bool averages_;
  Parameters* p_ = nullptr;
};

class Adagrad final : public ScalingRule {
 public:
  using ScalingRule::ScalingRule;
  std::string name() const override { return "adagrad"; }
  std::string describe() const override { return averages_ ? "AdaGrad, normalised by its mean multiplier" : "AdaGrad"; }
  void bind(Parameters& p) override {
    p_ = &p;
    squares_ = FloatBuffer(p.size(), p.weights);
  }
  void scale(const Run& r, double* sum) override {
    k_.adagrad(p_->gradients.data() + r.offset, squares_.data() + r.offset, r.count, sum);
  }
  void archive(Archive& a) override { archive_buffer(a, "squares", *p_, squares_); }

 private:
  FloatBuffer squares_;
};

class RmsProp final : public ScalingRule {
 public:
  RmsProp(const OptimizerOptions& o, const Kernels& k)
      : ScalingRule(o, k),
        constants_{static_cast<float>(o.rms_gamma), static_cast<float>(o.rms_increase),
                   static_cast<float>(o.rms_decrease), static_cast<float>(o.rms_max), static_cast<float>(o.rms_min)} {}
  std::string name() const override { return "rmsProp"; }
  std::string describe() const override {
    return averages_ ? "RMSProp with adapted steps, normalised by its mean multiplier" : "RMSProp with adapted steps";
  }
  void bind(Parameters& p) override {
    p_ = &p;
    squares_ = FloatBuffer(p.size(), p.weights);
    steps_ = FloatBuffer(p.size(), p.weights);
    signs_ = FloatBuffer(p.size(), p.weights);
  }
  void scale(const Run& r, double* sum) override {
    k_.rms_prop(p_->gradients.data() + r.offset, squares_.data() + r.offset, steps_.data() + r.offset,
                signs_.data() + r.offset, r.count, constants_, sum);
  }
  void archive(Archive& a) override {
    archive_buffer(a, "squares", *p_, squares_);
    archive_buffer(a, "steps", *p_, steps_);
    archive_buffer(a, "signs", *p_, signs_);
  }

 private:
  const RmsConstants constants_;
  FloatBuffer squares_, steps_, signs_;
};

class FsAdagrad final : public Rule {
 public:
  FsAdagrad(const OptimizerOptions& o, const Kernels& k)
      : k_(k), time_constant_(o.variance_time_constant), target_(o.target_average) {}
  std::string name() const override { return "fsAdagrad"; }
  std::string describe() const override { return fmt::format("FSAdaGrad, variance over {} samples", time_constant_); }
  void bind(Parameters& p) override {
    p_ = &p;
    squares_ = FloatBuffer(p.size(), p.weights);
    smoothed_ = FloatBuffer(p.size(), p.weights);
  }
  void begin_step(const StepScalars& s) override {
    const double n = static_cast<double>(s.columns);
    const double keep = std::exp(-n / time_constant_);
    count_ = keep * count_ + (1 - keep) * n;
    constants_ = {static_cast<float>(keep), static_cast<float>(target_ * std::sqrt(count_)),
                  static_cast<float>(std::pow(s.momentum_per_sample, n)), 0};
  }
  void apply(const Run& r, float rate) override {
    constants_.rate = rate;
    k_.fs_adagrad(p_->weights.data() + r.offset, p_->gradients.data() + r.offset, squares_.data() + r.offset,
                  smoothed_.data() + r.offset, r.count, constants_);
  }
  void reset_momentum() override { k_.clear(smoothed_.data(), smoothed_.size()); }
  void archive(Archive& a) override {
    a("smoothed count", count_);
    archive_buffer(a, "squares", *p_, squares_);
    archive_buffer(a, "momentum", *p_, smoothed_);
  }

 private:
  const Kernels& k_;
  const double time_constant_, target_;
  Parameters* p_ = nullptr;
  FloatBuffer squares_, smoothed_;
  FsAdagradConstants constants_{};
  double count_ = 0;
};

// Kingma and Ba 2015, on the mean gradient g/N with step size lr * N: learningRatesPerMB is the paper's alpha for a
// full minibatch.
class Adam final : public Rule {
 public:
  Adam(const OptimizerOptions& o, const Kernels& k)
      : k_(k), beta1_(o.beta1), beta2_(o.beta2), epsilon_(static_cast<float>(o.epsilon)) {}
  std::string name() const override { return "adam"; }
  std::string describe() const override {
    return fmt::format("Adam, beta1 {}, beta2 {}, epsilon {:g}", beta1_, beta2_, epsilon_);
  }
  void bind(Parameters& p) override {
    p_ = &p;
    mean_ = FloatBuffer(p.size(), p.weights);
    square_ = FloatBuffer(p.size(), p.weights);
  }
  void begin_step(const StepScalars& s) override {
    ++steps_;
    const double t = static_cast<double>(steps_), n = static_cast<double>(s.columns);
    step_factor_ = n / (1 - std::pow(beta1_, t));
    constants_ = {static_cast<float>(beta1_),
                  static_cast<float>(beta2_),
                  static_cast<float>(1 / n),
                  0,
                  static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t))),
                  epsilon_};
  }
  void apply(const Run& r, float rate) override {
    constants_.rate = static_cast<float>(rate * step_factor_);
    k_.adam(p_->weights.data() + r.offset, p_->gradients.data() + r.offset, mean_.data() + r.offset,
            square_.data() + r.offset, r.count, constants_);
  }
  void reset_momentum() override { k_.clear(mean_.data(), mean_.size()); }
  void archive(Archive& a) override {
    a("steps", steps_);
    archive_buffer(a, "momentum", *p_, mean_);
    archive_buffer(a, "squares", *p_, square_);
  }

 private:
  const Kernels& k_;
  const double beta1_, beta2_;
  const float epsilon_;
  Parameters* p_ = nullptr;
  FloatBuffer mean_, square_;
  AdamConstants constants_{};
  double step_factor_ = 0;
  std::int64_t steps_ = 0;
};

class RmsPropTextbook final : public Rule {
 public:
  RmsPropTextbook(const OptimizerOptions& o, const Kernels& k)
      : k_(k), decay_(static_cast<float>(o.decay)), epsilon_(static_cast<float>(o.epsilon)) {}
  std::string name() const override { return "rmsPropTextbook"; }
  std::string describe() const override {
    return fmt::format("RMSProp (textbook), decay {:g}, epsilon {:g}", decay_, epsilon_);
  }
  void bind(Parameters& p) override {
    p_ = &p;
    squares_ = FloatBuffer(p.size(), p.weights);
  }
  void begin_step(const StepScalars& s) override {
    n_ = static_cast<double>(s.columns);
    constants_ = {decay_, static_cast<float>(1 / n_), 0, epsilon_};
  }
  void apply(const Run& r, float rate) override {
    constants_.rate = static_cast<float>(rate * n_);
    k_.rms_prop_textbook(p_->weights.data() + r.offset, p_->gradients.data() + r.offset, squares_.data() + r.offset,
                         r.count, constants_);
  }
  void archive(Archive& a) override { archive_buffer(a, "squares", *p_, squares_); }

 private:
  const Kernels& k_;
  const float decay_, epsilon_;
  Parameters* p_ = nullptr;
  FloatBuffer squares_;
  TextbookConstants constants_{};
  double n_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_rule(const OptimizerOptions& o, const Kernels& k) {
  switch (o.rule) {
    case UpdateRule::sgd:
      return make_sgd_rule(o, k);
    case UpdateRule::adagrad:
      return std::make_unique<Adagrad>(o, k);
    case UpdateRule::fs_adagrad:
      return std::make_unique<FsAdagrad>(o, k);
    case UpdateRule::rms_prop:
      return std::make_unique<RmsProp>(o, k);
    case UpdateRule::adam:
      return std::make_unique<Adam>(o, k);
    case UpdateRule::rms_prop_textbook:
      return std::make_unique<RmsPropTextbook>(o, k);
    case UpdateRule::one_bit_adam:
      return make_one_bit_adam_rule(o, k);
  }
  throw Error("unknown update rule");
}

}  // namespace tutti::optim
