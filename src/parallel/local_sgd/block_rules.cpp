// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_sgd/block_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tutti {
namespace {

void archive_by_slice(Archive& a, const char* what, const Parameters& p, FloatBuffer& buffer) {
  for (const Slice& s : p.slices) a(fmt::format("{}/{}", what, s.name), buffer.span().subspan(s.offset, s.size()));
}

struct Range {
  float *w, *p, *sum;  // own weights, common ones, the sum of the offers or this rank's own one
  std::size_t count;
};

// All rules except the elastic one leave every rank with the common weights, perhaps minus its undelivered residual.
class CommonRule : public BlockRule {
 public:
  void offer(std::size_t begin, std::size_t end) override {
    const Range r = range(begin, end);
    if (carries())
      kernels_->run(weights::OfferCarried{r.p, r.w, residual_ + begin, r.sum, factor_, carry_}, r.count);
    else
      kernels_->run(weights::Offer{r.p, r.w, r.sum, factor_}, r.count);
  }
  void take(std::size_t begin, std::size_t end) override {
    const Range r = range(begin, end);
    common(begin, r);
    if (carries()) kernels_->run(weights::Carry{r.p, residual_ + begin, r.w, carry_}, r.count);
  }
  bool carries() const override { return residual_ && carry_ != 0; }
  float carry() const override { return carry_; }

 protected:
  virtual void common(std::size_t begin, const Range&) = 0;

  Range range(std::size_t begin, std::size_t end) const {
    return {live_->weights.data() + begin, block_->weights.data() + begin, block_->gradients.data() + begin,
            end - begin};
  }

  float factor_ = 1;  // of this rank's P - W
  float carry_ = 0;   // weights per unit of an offer
};

class Averaging final : public CommonRule {
 public:
  explicit Averaging(int ranks) : ranks_(ranks) { carry_ = static_cast<float>(ranks); }
  void begin(const BlockSamples& n, std::size_t) override {
    factor_ = n.all > 0 ? static_cast<float>(static_cast<double>(n.mine) / static_cast<double>(n.all))
                        : 1.0f / static_cast<float>(ranks_);
  }
  void common(std::size_t, const Range& r) override { kernels_->run(weights::Descend{r.w, r.p, r.sum, 1}, r.count); }
  bool nothing_alone() const override { return true; }
  std::string describe() const override { return "mean by samples"; }

 private:
  int ranks_;
};

class BlockMomentum final : public CommonRule {
 public:
  explicit BlockMomentum(const BlockMomentumTerms& terms)
      : terms_(terms), momentum_(static_cast<float>(terms.momentum)) {
    factor_ = static_cast<float>((1 - terms.momentum) * terms.rate);
    if (factor_ > 0) carry_ = 1 / factor_;
  }
  void bind(Parameters& live, Parameters& block, const float* residual) override {
    BlockRule::bind(live, block, residual);
    smoothed_ = FloatBuffer(live.size(), live.weights);
  }
  void common(std::size_t begin, const Range& r) override {
    const float ahead = terms_.nesterov ? momentum_ : 0.0f;
    kernels_->run(weights::Smooth{r.w, r.p, smoothed_.data() + begin, r.sum, momentum_, ahead}, r.count);
  }
  bool nothing_alone() const override { return terms_.momentum == 0 && factor_ == 1; }
  void archive(Archive& a) override { archive_by_slice(a, "block momentum", *live_, smoothed_); }
  std::string describe() const override {
    return fmt::format("block momentum {:g}{}, block learning rate {:g}", terms_.momentum,
                       terms_.nesterov ? " (Nesterov)" : "", terms_.rate);
  }

 private:
  BlockMomentumTerms terms_;
  float momentum_;
  FloatBuffer smoothed_;
};

class OuterSgd final : public CommonRule {
 public:
  OuterSgd(const OuterTerms& terms, int ranks) : rate_(static_cast<float>(terms.rate)) {
    factor_ = 1.0f / static_cast<float>(ranks);
    carry_ = static_cast<float>(ranks);
  }
  void common(std::size_t, const Range& r) override {
    kernels_->run(weights::Descend{r.w, r.p, r.sum, rate_}, r.count);
  }
  bool nothing_alone() const override { return rate_ == 1; }
  std::string describe() const override { return fmt::format("outer SGD, rate {:g}", rate_); }

 private:
  float rate_;
};

class OuterNesterov final : public CommonRule {
 public:
  OuterNesterov(const OuterTerms& terms, int ranks)
      : rate_(static_cast<float>(terms.rate)), momentum_(static_cast<float>(terms.momentum)) {
    factor_ = 1.0f / static_cast<float>(ranks);
    carry_ = static_cast<float>(ranks);
  }
  void bind(Parameters& live, Parameters& block, const float* residual) override {
    BlockRule::bind(live, block, residual);
    velocity_ = FloatBuffer(live.size(), live.weights);
  }
  void common(std::size_t begin, const Range& r) override {
    kernels_->run(weights::Nesterov{r.w, r.p, velocity_.data() + begin, r.sum, rate_, momentum_}, r.count);
  }
  void archive(Archive& a) override { archive_by_slice(a, "outer velocity", *live_, velocity_); }
  std::string describe() const override {
    return fmt::format("outer Nesterov momentum {:g}, rate {:g}", momentum_, rate_);
  }

 private:
  float rate_, momentum_;
  FloatBuffer velocity_;
};

class OuterAdam final : public CommonRule {
 public:
  OuterAdam(const OuterTerms& terms, int ranks) : terms_(terms) {
    factor_ = 1.0f / static_cast<float>(ranks);
    carry_ = static_cast<float>(ranks);
  }
  void bind(Parameters& live, Parameters& block, const float* residual) override {
    BlockRule::bind(live, block, residual);
    mean_ = FloatBuffer(live.size(), live.weights);
    square_ = FloatBuffer(live.size(), live.weights);
    std::ranges::fill(steps_, 0);
  }
  void plan_fragments(std::size_t n) override { steps_.assign(n, 0); }
  void begin(const BlockSamples&, std::size_t fragment) override { ++steps_[now_ = fragment]; }
  void resume(std::size_t fragment) override { now_ = fragment; }
  void common(std::size_t begin, const Range& r) override {
    const auto t = static_cast<double>(steps_[now_]);
    const auto rate = static_cast<float>(terms_.rate / (1 - std::pow(terms_.beta1, t)));
    const auto unbias = static_cast<float>(1 / (1 - std::pow(terms_.beta2, t)));
    const auto b1 = static_cast<float>(terms_.beta1), b2 = static_cast<float>(terms_.beta2);
    const auto epsilon = static_cast<float>(terms_.epsilon);
    kernels_->run(
        weights::Adam{r.w, r.p, mean_.data() + begin, square_.data() + begin, r.sum, b1, b2, rate, unbias, epsilon},
        r.count);
  }
  void archive(Archive& a) override {
    for (std::size_t f = 0; f < steps_.size(); ++f)
      a(f == 0 ? std::string("outer steps") : fmt::format("outer steps {}", f), steps_[f]);
    archive_by_slice(a, "outer mean", *live_, mean_);
    archive_by_slice(a, "outer square", *live_, square_);
  }
  std::string describe() const override {
    return fmt::format("outer Adam, rate {:g}, beta {:g} and {:g}", terms_.rate, terms_.beta1, terms_.beta2);
  }

 private:
  OuterTerms terms_;
  std::vector<std::int64_t> steps_ = {0};  // by fragment
  std::size_t now_ = 0;                    // the fragment
  FloatBuffer mean_, square_;
};

class Elastic final : public BlockRule {
 public:
  explicit Elastic(double moving_rate) : rate_(static_cast<float>(moving_rate)) {}
  void offer(std::size_t begin, std::size_t end) override {
    kernels_->run(weights::Pull{block_->weights.data() + begin, live_->weights.data() + begin,
                                block_->gradients.data() + begin, rate_},
                  end - begin);
  }
  void take(std::size_t begin, std::size_t end) override {
    kernels_->run(weights::Subtract{block_->gradients.data() + begin, block_->weights.data() + begin}, end - begin);
  }
  bool keeps_apart() const override { return true; }
  std::string describe() const override { return fmt::format("elastic, moving rate {:g}", rate_); }

 private:
  float rate_;
};

}  // namespace

std::unique_ptr<BlockRule> make_averaging_rule(int ranks) { return std::make_unique<Averaging>(ranks); }

std::unique_ptr<BlockRule> make_block_momentum_rule(const BlockMomentumTerms& terms) {
  return std::make_unique<BlockMomentum>(terms);
}

std::unique_ptr<BlockRule> make_outer_rule(const OuterTerms& terms, int ranks) {
  switch (terms.kind) {
    case OuterOptimizer::adam:
      return std::make_unique<OuterAdam>(terms, ranks);
    case OuterOptimizer::sgd:
      return std::make_unique<OuterSgd>(terms, ranks);
    case OuterOptimizer::nesterov:
    case OuterOptimizer::block_momentum:
      break;
  }
  return std::make_unique<OuterNesterov>(terms, ranks);
}

std::unique_ptr<BlockRule> make_elastic_rule(double moving_rate) { return std::make_unique<Elastic>(moving_rate); }

}  // namespace tutti
