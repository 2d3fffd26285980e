// SPDX-License-Identifier: Apache-2.0
// Optimizers over weights of a GPU against those of the host, with all that stands before and behind a rule.
#include <cmath>
#include <numeric>

#include "../../support/on_gpu.h"
#include "../cases.h"
#include "../support.h"

namespace tutti::cuda_optimizer_test {
namespace {

using testing::Case;
using testing::Floats;

class CudaOptimizer : public OnGpu {};

// More parameters than one kernel takes; of two of them most lines stand still.
Parameters parameters(const FloatMemory& memory) {
  std::vector<std::pair<std::size_t, std::size_t>> sizes{{70, 23}, {33, 40}, {1100, 1}, {20, 30}, {30, 20}};
  for (std::size_t i = 0; i < 34; ++i) sizes.push_back({i + 1, 1});
  Parameters p = testing::make_parameters(sizes);
  p.sparse_rows.resize(sizes.size());
  for (const std::size_t sparse : {3, 4}) p.slices[sparse].sparse_gradient = true;
  p.slices[4].sparse_by_row = true;
  p.slices[1].regularization_multiplier = 0.5, p.slices[2].learning_rate_multiplier = 2;
  p.weights = FloatBuffer(p.size(), memory), p.gradients = FloatBuffer(p.size(), memory);
  return p;
}

Floats trained(const OptimizerOptions& options, const FloatMemory& memory, bool at_once) {
  Parameters p = parameters(memory);
  std::mt19937 engine(11);
  testing::fill(p.weights, p, engine, 1);
  if (!at_once) testing::cut(p, engine);
  const auto optimizer = make_optimizer(options);
  optimizer->bind(p);
  std::vector<std::size_t> all(p.chunks.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (int step = 0; step < 3; ++step) {
    memory.synchronize();
    testing::fill(p.gradients, p, engine, 1);
    for (const std::size_t sparse : {3, 4}) {
      p.sparse_rows[sparse].clear();
      for (std::uint32_t line = 0; line < p.slices[sparse].sparse_row_count(); ++line)
        if (engine() % 3 == 0) p.sparse_rows[sparse].push_back(line);
    }
    const auto before = counted_calls();
    optimizer->begin_step({0.01, 0.99, 5 + step * 7});
    if (at_once)
      optimizer->update_all(all);
    else
      for (const std::size_t chunk : all) optimizer->update(chunk);
    if (!is_host(memory) && before) {
      EXPECT_EQ(counted_calls()->waits, before->waits);
    }
  }
  memory.synchronize();
  return testing::copy(p.weights);
}

bool sums(const OptimizerOptions& o) {
  const bool scales = o.rule == UpdateRule::adagrad || o.rule == UpdateRule::rms_prop;
  const bool trusts = o.rule == UpdateRule::lamb || o.rule == UpdateRule::lars;
  return trusts || std::isfinite(o.global_norm_per_sample) || (scales && o.norm_with_average) || (std::isfinite(o.clipping_per_sample) && !o.clip_by_truncation);
}

TEST_F(CudaOptimizer, TrainsAsTheHostDoesAndNeverWaits) {
  for (const Case& c : testing::cases()) {
    if (c.options.rule == UpdateRule::one_bit_adam) continue;  // of the host alone
    for (const bool at_once : {false, true}) {
      const Floats expected = trained(c.options, host_memory(), at_once);
      const Floats got = trained(c.options, gpu->shared_memory(), at_once);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        if (sums(c.options))
          ASSERT_NEAR(got[i], expected[i], 1e-5 + 1e-5 * std::abs(expected[i])) << c.name << ": " << i;
        else
          ASSERT_EQ(got[i], expected[i]) << c.name << ": " << i;
    }
  }
}

}  // namespace
}  // namespace tutti::cuda_optimizer_test
