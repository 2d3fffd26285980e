// SPDX-License-Identifier: Apache-2.0
// SGD with unit-gain momentum, plain or Nesterov (semantics: docs/optimizers.md); rules with a rate per element:
// adagrad, rmsProp and fsAdagrad as in CNTK, and textbook RMSProp.
#include "optim/rules.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tutti/error.h"

namespace tutti::optim {
namespace {

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
  Sums sums() const final { return averages_ ? Sums::scaled : Sums::none; }
  void apply(const Run& r, float rate) final {
    scale(r, nullptr);
    k_.run(Descend{weights(r), gradients(r), rate}, r.count);
  }
  void descend(const Run& r, float rate, const ParameterSums& s) final {
    k_.run(DescendByMean{weights(r), gradients(r), rate, s.scaled, s.count}, r.count);
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
    case UpdateRule::adam_w:
    case UpdateRule::lamb:
    case UpdateRule::one_bit_adam:
      return make_adam(o, k);
    case UpdateRule::lars:
      return make_lars(o, k);
    case UpdateRule::rms_prop_textbook:
      return std::make_unique<TextbookRule>(o, k);
  }
  throw Error("unknown update rule");
}

}  // namespace tutti::optim
