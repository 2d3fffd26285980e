// SPDX-License-Identifier: Apache-2.0
// block_rules.h -- computes the new weights in an exchange: averages, block momentum, an outer optimizer, elastic
// averaging. BlockExchange decides when; the codec sets the number of bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parallel/local_sgd/weight_kernels.h"
#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

// The samples of an exchange.
struct BlockSamples {
  std::int64_t mine = 0, all = 0;
};

// Works on two Parameters of the same layout and kind of memory; on a GPU, offer() and take() enqueue their work.
// `live`: the weights that this rank trains. `block.weights`: the common weights, equal on all ranks.
// `block.gradients`: first this rank's offer, then the sum of all offers.
class BlockRule {
 public:
  virtual ~BlockRule() = default;
  // `residual`: the quantisation error of this rank's offers, in their units; null if the codec is lossless.
  virtual void bind(Parameters& live, Parameters& block, const float* residual) {
    live_ = &live, block_ = &block, residual_ = residual;
    kernels_ = &weight_kernels_for(live.weights.memory());
  }
  // Weights may be exchanged in fragments, one at a time, each from its begin() to its take().
  virtual void plan_fragments(std::size_t) {}
  virtual void begin(const BlockSamples&, std::size_t /*fragment*/) {}
  virtual void resume(std::size_t /*fragment*/) {}  // replaces begin() and offer() of an interrupted run
  // On [begin, end) of the buffers: offer() computes the offer from the weights; take() computes common and own weights
  // from the sum.
  virtual void offer(std::size_t begin, std::size_t end) = 0;
  virtual void take(std::size_t begin, std::size_t end) = 0;
  // Whether a rank continues from the common weights minus its undelivered residual (P - R in units of weights), so
  // that it does not learn twice what is in flight.
  virtual bool carries() const { return false; }
  virtual float carry() const { return 0; }  // weights per unit of R, if a rank carries its residual
  // Whether ranks keep different weights after an exchange, and whether the exchange has no effect on a single rank.
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

// Blockwise model-update filtering (Chen and Huo, ICASSP 2016; as in CNTK), with G = sum_k (P - W_k):
// S = m S + (1 - m) rate G; P -= S; with Nesterov also P -= m S.
struct BlockMomentumTerms {
  double momentum = 0, rate = 1;
  bool nesterov = true;
};
std::unique_ptr<BlockRule> make_block_momentum_rule(const BlockMomentumTerms&);

// Uses the mean of P - W_k as the gradient of an outer optimizer over blocks (local SGD with an outer step, as in
// DiLoCo).
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
