// SPDX-License-Identifier: Apache-2.0
// SGD with unit-gain momentum, plain or Nesterov (semantics: docs/optimizers.md).
#include <fmt/format.h>

#include <cmath>

#include "optim/rules.h"

namespace tutti::optim {

void archive_buffer(Archive& a, const char* what, const Parameters& p, FloatBuffer& buffer) {
  for (const Slice& s : p.slices) a(fmt::format("{}/{}", what, s.name), buffer.span().subspan(s.offset, s.size()));
}

namespace {

class SgdRule final : public Rule {
 public:
  SgdRule(const OptimizerOptions& o, const Kernels& k) : k_(k), keeps_(o.momentum), nesterov_(o.nesterov) {}

  std::string name() const override { return "none"; }
  std::string describe() const override {
    if (!keeps_) return "SGD without momentum";
    return nesterov_ ? "SGD with unit-gain Nesterov momentum" : "SGD with unit-gain momentum";
  }

  void bind(Parameters& p) override {
    p_ = &p;
    if (keeps_) smoothed_ = FloatBuffer(p.size(), p.weights);
  }

  void begin_step(const StepScalars& s) override {
    mu_ = static_cast<float>(std::pow(s.momentum_per_sample, static_cast<double>(s.columns)));
  }

  void apply(const Run& r, float rate) override {
    float* w = p_->weights.data() + r.offset;
    const float* g = p_->gradients.data() + r.offset;
    if (!keeps_) return k_.descend(w, g, r.count, rate);
    float* s = smoothed_.data() + r.offset;
    if (r.sparse) return (nesterov_ ? k_.sparse_nesterov : k_.sparse_momentum)(w, g, s, r.count, mu_, rate);
    (nesterov_ ? k_.nesterov : k_.momentum)(w, g, s, r.count, mu_, (1.0f - mu_) * rate);
  }

  void reset_momentum() override { k_.clear(smoothed_.data(), smoothed_.size()); }

  void archive(Archive& a) override {
    bool stored = keeps_;
    a("has momentum", stored);
    if (!stored) return reset_when_loading(a);
    // A file with momentum is loaded by a run without: the values are discarded.
    FloatBuffer unused;
    if (!keeps_) unused = FloatBuffer(p_->size());
    archive_buffer(a, "momentum", *p_, keeps_ ? smoothed_ : unused);
  }

 private:
  void reset_when_loading(Archive& a) {
    if (a.loading()) reset_momentum();
  }

  const Kernels& k_;
  const bool keeps_, nesterov_;
  Parameters* p_ = nullptr;
  FloatBuffer smoothed_;
  float mu_ = 0;
};

}  // namespace

std::unique_ptr<Rule> make_sgd_rule(const OptimizerOptions& o, const Kernels& k) {
  return std::make_unique<SgdRule>(o, k);
}

}  // namespace tutti::optim
