// SPDX-License-Identifier: Apache-2.0
// push_client.h -- the arithmetic of a worker of DataParallelASGD (client.h): what it pushes, and how fetched weights
// replace its own. On a device, all of it is enqueued there.
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
    bool gradients = false;  // pushes gradients instead of deltas
    bool accrues = false;    // accumulates gradients of several minibatches
    bool shifted = false;    // fetched weights are not those that deltas are computed from (pipelined or rarer fetches)
  };
  // All arguments must outlive it; the longest run of columns has `largest_run` values.
  PushWorker(const Kind&, Parameters& live, const Codec&, std::size_t largest_run);

  void begin();  // the weights are the common ones, and nothing is pending
  // Adds the gradients of this minibatch to the pending ones; take_accrued() returns those to push and starts anew.
  void accrue();
  const float* take_accrued();

  // `factor`: scales the delta.
  void write(const ServerShardRun&, const PushHead&, float factor, const float* gradients, std::byte* message);
  void take(const ServerShardRun&, const std::byte* message);
  // Takes the response of the previous push (null: there was none) and computes the next push in one pass. The two may
  // share memory.
  void turn(const ServerShardRun&, const PushHead&, float factor, const float* gradients, const std::byte* in,
            std::byte* out);
  // The quantisation error of all pushes so far, as large as the weights, or empty.
  FloatBuffer& residual() { return residual_; }

 private:
  const float* common(const ServerShardRun&, const std::byte* message);
  void copy(const float* from, float* to, std::size_t count) const { kernels_.run(weights::Copy{from, to}, count); }

  const Kind kind_;
  Parameters& live_;
  const Codec& codec_;
  const WeightKernels& kernels_;
  // The weights at the last push or fetch; deltas are computed from them.
  FloatBuffer base_;
  FloatBuffer known_;  // the common weights as fetched last, if different
  FloatBuffer residual_, accrued_, delta_, common_;
  bool has_accrued_ = false;
};

}  // namespace tutti
