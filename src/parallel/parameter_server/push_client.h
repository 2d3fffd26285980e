// SPDX-License-Identifier: Apache-2.0
// push_client.h -- the arithmetic of a worker of DataParallelASGD (client.h): what it pushes, and what
// becomes of its weights when the common ones come back. Where they are a device's, all of it is queued there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "parallel/local_sgd/weight_kernels.h"
#include "parallel/parameter_server/shard.h"
#include "tutti/codec.h"
#include "tutti/parameters.h"

namespace tutti {

class PushWorker {
 public:
  struct Kind {
    bool gradients = false;  // are pushed, not deltas
    bool accrues = false;    // those of several minibatches
    bool shifted = false;    // common weights come later than those that deltas count from, or more seldom
  };
  // All outlive it; the largest run of columns has so many values.
  PushWorker(const Kind&, Parameters& live, const Codec&, std::size_t largest_run);

  void begin();  // the weights are the common ones, and nothing waits for a push
  // Adds the gradients of this minibatch to those that wait, or tells what to push of them, and begins anew.
  void accrue();
  const float* take_accrued();

  // `factor`: by which a delta counts.
  void write(const ServerShardRun&, const PushHead&, float factor, const float* gradients, std::byte* message);
  void take(const ServerShardRun&, const std::byte* message);
  // Both at once, the weights of the push before (null: there was none) and the next push, which may share their
  // memory.
  void turn(const ServerShardRun&, const PushHead&, float factor, const float* gradients, const std::byte* in,
            std::byte* out);
  // The quantisation error of the pushes so far; of the size of the weights, or empty.
  FloatBuffer& residual() { return residual_; }

 private:
  const float* common(const ServerShardRun&, const std::byte* message);
  void copy(const float* from, float* to, std::size_t count) const { kernels_.run(weights::Copy{from, to}, count); }

  const Kind kind_;
  Parameters& live_;
  const Codec& codec_;
  const WeightKernels& kernels_;
  // The weights at the last push or fetch: deltas count from there.
  FloatBuffer base_;
  FloatBuffer known_;  // the common weights as they came last, where that is something else
  FloatBuffer residual_, accrued_, delta_, common_;
  bool has_accrued_ = false;
};

}  // namespace tutti
