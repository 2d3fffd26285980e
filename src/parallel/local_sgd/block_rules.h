// SPDX-License-Identifier: Apache-2.0
// block_rules.h -- what the ranks make of the weights that each has reached alone since the last exchange: averages,
// block momentum, an outer optimizer, an elastic pull. BlockSteps decides when; the codec in how many bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parallel/local_sgd/weight_kernels.h"
#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

// The samples behind an exchange.
struct BlockSamples {
  std::int64_t mine = 0, all = 0;
};

// Works on two Parameters of one layout and in one kind of memory; on a GPU offer() and take() put work into its queue.
// `live` is what this rank trains. `block.weights` is what the ranks have in common, equal everywhere;
// `block.gradients` holds first what this rank offers, then the sum of all offers.
class BlockRule {
 public:
  virtual ~BlockRule() = default;
  // `residual`: the quantisation error of this rank's offers, in their units; null where nothing is lost.
  virtual void bind(Parameters& live, Parameters& block, const float* residual) {
    live_ = &live, block_ = &block, residual_ = residual;
    kernels_ = &weight_kernels_for(live.weights.memory());
  }
  // Weights may be exchanged in fragments, one at a time, each from its own begin() to its take().
  virtual void plan_fragments(std::size_t) {}
  virtual void begin(const BlockSamples&, std::size_t /*fragment*/) {}
  virtual void resume(std::size_t /*fragment*/) {}  // after begin() and offer() of an interrupted run
  // [begin, end) of the buffers: from the weights to the offer, and from the sum to the common and the own weights.
  virtual void offer(std::size_t begin, std::size_t end) = 0;
  virtual void take(std::size_t begin, std::size_t end) = 0;
  // Whether a rank goes on from the common weights less what it could not deliver (P - R in the units of weights), so
  // that it does not learn again what is in flight already.
  virtual bool carries() const { return false; }
  virtual float carry() const { return 0; }  // weights per unit of R, where a rank carries
  // Whether ranks keep weights of their own after an exchange, and whether one rank alone has nothing to do in it.
  virtual bool keeps_apart() const { return carries(); }
  virtual bool nothing_alone() const { return false; }
  virtual void archive(Archive&) {}  // equal on every rank
  virtual std::string describe() const = 0;

 protected:
  Parameters* live_ = nullptr;
  Parameters* block_ = nullptr;
  const float* residual_ = nullptr;
  const WeightKernels* kernels_ = nullptr;
};

// W = sum_k (n_k / sum n) W_k, as a step from the common weights.
std::unique_ptr<BlockRule> make_averaging_rule(int ranks);

// Blockwise model-update filtering (Chen and Huo, ICASSP 2016; semantics 11.4), G = sum_k (P - W_k):
// S = m S + (1 - m) rate G; P -= S, with Nesterov P -= m S too.
struct BlockMomentumTerms {
  double momentum = 0, rate = 1;
  bool nesterov = true;
};
std::unique_ptr<BlockRule> make_block_momentum_rule(const BlockMomentumTerms&);

// The mean of P - W_k as the gradient of an optimizer over blocks (local SGD with an outer step, as in DiLoCo).
enum class OuterOptimizer { block_momentum, nesterov, sgd, adam };
struct OuterTerms {
  OuterOptimizer kind = OuterOptimizer::nesterov;
  double rate = 0.7, momentum = 0.9;                 // momentum: nesterov
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adam
};
std::unique_ptr<BlockRule> make_outer_rule(const OuterTerms&, int ranks);

// Elastic averaging (Zhang, Choromanska, LeCun, NIPS 2015): x_k += a (C - x_k) on every rank, C -= sum_k a (C - x_k).
std::unique_ptr<BlockRule> make_elastic_rule(double moving_rate);

}  // namespace tutti
