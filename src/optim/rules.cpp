// SPDX-License-Identifier: Apache-2.0
// SGD with unit-gain momentum, plain or Nesterov (semantics: docs/optimizers.md); rules with a rate per element:
// adagrad, rmsProp and fsAdagrad as in CNTK, adam, textbook RMSProp, and 1-bit Adam.
#include "optim/rules.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tutti/log.h"

namespace tutti::optim {
namespace {

float as_float(double x) { return static_cast<float>(x); }

void archive_buffer(Archive& a, const char* what, const Parameters& p, FloatBuffer& buffer) {
  for (const Slice& s : p.slices) a(fmt::format("{}/{}", what, s.name), buffer.span().subspan(s.offset, s.size()));
}

}  // namespace

void Rule::bind(Parameters& p) {
  p_ = &p;
  for (FloatBuffer& buffer : buffers_) buffer = FloatBuffer(p.size(), p.weights);
}

void Rule::reset_momentum() {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (std::strcmp(states_[i], "momentum") == 0) k_.clear(buffers_[i].data(), buffers_[i].size());
}

void Rule::archive(Archive& a) {
  for (std::size_t i = 0; i < states_.size(); ++i) archive_buffer(a, states_[i], *p_, buffers_[i]);
}

namespace {

class SgdRule final : public Rule {
 public:
  SgdRule(const OptimizerOptions& o, const Kernels& k)
      : Rule("none",
             !o.momentum  ? "SGD without momentum"
             : o.nesterov ? "SGD with unit-gain Nesterov momentum"
                          : "SGD with unit-gain momentum",
             k, o.momentum ? std::vector{"momentum"} : std::vector<const char*>()),
        nesterov_(o.nesterov) {}

  void begin_step(const StepScalars& s) override {
    mu_ = as_float(std::pow(s.momentum_per_sample, static_cast<double>(s.columns)));
  }

  void apply(const Run& r, float rate) override {
    if (!keeps()) return k_.run(Descend{weights(r), gradients(r), rate}, r.count);
    const float fresh = 1.0f - mu_, gain = r.sparse ? fresh : fresh * rate, left = r.sparse ? rate : 1.0f;
    if (nesterov_) return k_.run(Nesterov{weights(r), gradients(r), state(0, r), mu_, gain, left}, r.count);
    k_.run(Momentum{weights(r), gradients(r), state(0, r), mu_, gain, left}, r.count);
  }

  void archive(Archive& a) override {
    bool stored = keeps();
    a("has momentum", stored);
    if (stored && keeps()) return Rule::archive(a);
    if (a.loading()) reset_momentum();
    if (!stored) return;
    // A file with momentum is loaded by a run without: the values are discarded.
    FloatBuffer unused(p_->size());
    archive_buffer(a, "momentum", *p_, unused);
  }

 private:
  bool keeps() const { return !buffers_.empty(); }

  const bool nesterov_;
  float mu_ = 0;
};

// Rules that scale a gradient in place, then descend by it, and may divide by the mean multiplier.
class ScalingRule : public Rule {
 public:
  ScalingRule(std::string name, const std::string& description, const OptimizerOptions& o, const Kernels& k,
              std::vector<const char*> states)
      : Rule(std::move(name), description + (o.norm_with_average ? ", normalised by its mean multiplier" : ""), k,
             std::move(states)),
        averages_(o.norm_with_average) {}
  bool averages() const final { return averages_; }
  void apply(const Run& r, float rate) final {
    scale(r, nullptr);
    k_.run(Descend{weights(r), gradients(r), rate}, r.count);
  }

 private:
  const bool averages_;
};

class AdagradRule final : public ScalingRule {
 public:
  AdagradRule(const OptimizerOptions& o, const Kernels& k) : ScalingRule("adagrad", "AdaGrad", o, k, {"squares"}) {}
  void scale(const Run& r, double* sum) override { k_.run(Adagrad{gradients(r), state(0, r)}, r.count, sum); }
};

class RmsPropRule final : public ScalingRule {
 public:
  RmsPropRule(const OptimizerOptions& o, const Kernels& k)
      : ScalingRule("rmsProp", "RMSProp with adapted steps", o, k, {"squares", "steps", "signs"}),
        constants_{as_float(o.rms_gamma), as_float(o.rms_increase), as_float(o.rms_decrease), as_float(o.rms_max),
                   as_float(o.rms_min)} {}
  void scale(const Run& r, double* sum) override {
    k_.run(RmsProp{gradients(r), state(0, r), state(1, r), state(2, r), constants_}, r.count, sum);
  }

 private:
  const RmsConstants constants_;
};

class FsAdagradRule final : public Rule {
 public:
  FsAdagradRule(const OptimizerOptions& o, const Kernels& k)
      : Rule("fsAdagrad", fmt::format("FSAdaGrad, variance over {} samples", o.variance_time_constant), k,
             {"squares", "momentum"}),
        time_constant_(o.variance_time_constant),
        target_(o.target_average) {}
  void begin_step(const StepScalars& s) override {
    const double n = static_cast<double>(s.columns);
    const double keep = std::exp(-n / time_constant_);
    count_ = keep * count_ + (1 - keep) * n;
    constants_ = {as_float(keep), as_float(target_ * std::sqrt(count_)), as_float(std::pow(s.momentum_per_sample, n)),
                  0};
  }
  void apply(const Run& r, float rate) override {
    constants_.rate = rate;
    const auto run = [&]<bool smooth>() {
      k_.run(FsAdagrad<smooth>{weights(r), gradients(r), state(0, r), state(1, r), constants_}, r.count);
    };
    constants_.momentum > 0.0f ? run.operator()<true>() : run.operator()<false>();
  }
  void archive(Archive& a) override {
    a("smoothed count", count_);
    Rule::archive(a);
  }

 private:
  const double time_constant_, target_;
  FsAdagradConstants constants_{};
  double count_ = 0;
};

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
    const double n = static_cast<double>(s.columns);
    step_factor_ = n / (1 - std::pow(beta1_, static_cast<double>(steps_)));
    constants_.inverse_n = as_float(1 / n);
    constants_.root_correction = as_float(1 / std::sqrt(1 - std::pow(beta2_, static_cast<double>(squared))));
  }

  const double beta1_, beta2_;
  AdamConstants constants_;
  double step_factor_ = 0;
  std::int64_t steps_ = 0;
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

class TextbookRule final : public Rule {
 public:
  TextbookRule(const OptimizerOptions& o, const Kernels& k)
      : Rule("rmsPropTextbook",
             fmt::format("RMSProp (textbook), decay {:g}, epsilon {:g}", as_float(o.decay), as_float(o.epsilon)), k,
             {"squares"}),
        constants_{as_float(o.decay), 0, 0, as_float(o.epsilon)} {}
  void begin_step(const StepScalars& s) override {
    n_ = static_cast<double>(s.columns);
    constants_.inverse_n = as_float(1 / n_);
  }
  void apply(const Run& r, float rate) override {
    constants_.rate = as_float(rate * n_);
    k_.run(Textbook{weights(r), gradients(r), state(0, r), constants_}, r.count);
  }

 private:
  TextbookConstants constants_;
  double n_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_rule(const OptimizerOptions& o, const Kernels& k) {
  switch (o.rule) {
    case UpdateRule::sgd:
      return std::make_unique<SgdRule>(o, k);
    case UpdateRule::adagrad:
      return std::make_unique<AdagradRule>(o, k);
    case UpdateRule::fs_adagrad:
      return std::make_unique<FsAdagradRule>(o, k);
    case UpdateRule::rms_prop:
      return std::make_unique<RmsPropRule>(o, k);
    case UpdateRule::adam:
      return std::make_unique<AdamRule>(o, k);
    case UpdateRule::rms_prop_textbook:
      return std::make_unique<TextbookRule>(o, k);
    case UpdateRule::one_bit_adam:
      return std::make_unique<OneBitAdamRule>(o, k);
  }
  throw Error("unknown update rule");
}

}  // namespace tutti::optim
