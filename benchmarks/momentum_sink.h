// SPDX-License-Identifier: Apache-2.0
// momentum_sink.h -- the commonest optimizer, written as plainly as can be: what a step costs beside the network.
#pragma once

#include "tutti/parameters.h"

namespace tutti {

class MomentumSink : public GradientSink {
 public:
  explicit MomentumSink(Parameters& p, float rate = 1e-7f) : p_(p), rate_(rate), smoothed_(p.size()) {}
  void chunk_ready(std::size_t index) override {
    const GradientChunk& chunk = p_.chunks[index];
    const std::size_t begin = p_.offset(chunk), count = p_.count(chunk);
    update(rate_, p_.gradients.data() + begin, smoothed_.data() + begin, p_.weights.data() + begin, count);
  }

 private:
  __attribute__((target("avx2"), optimize("O3"))) static void update(float rate, const float* __restrict g,
                                                                     float* __restrict s, float* __restrict w,
                                                                     std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      s[i] = 0.9f * s[i] + rate * g[i];
      w[i] -= s[i];
    }
  }
  Parameters& p_;
  const float rate_;
  FloatBuffer smoothed_;
};

}  // namespace tutti
