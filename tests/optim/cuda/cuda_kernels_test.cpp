// SPDX-License-Identifier: Apache-2.0
// The element loops for GPUs against those of the host: elements bit for bit, sums to the precision of their order.
#include "../../support/on_gpu.h"
#include "../kernel_checks.h"

namespace tutti::optim::cuda_kernels_test {
namespace {

class CudaKernels : public OnGpu {};

TEST_F(CudaKernels, ElementsHaveTheBitsOfTheHost) {
  const FloatMemory& memory = gpu->shared_memory();
  for (const std::size_t n : {0, 1, 2, 17, 255, 256, 257, 1024, 1025, 4099}) {
    const Floats expected = run_all(portable_kernels(), n, 1), got = run_all(kernels_for(memory), n, 1, memory);
    ASSERT_EQ(got.size(), expected.size());
    constexpr std::size_t sums = 6;  // three a round
    for (std::size_t i = 0; i < sums; ++i) EXPECT_FLOAT_EQ(got[i], expected[i]) << n;
    for (std::size_t i = sums; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << n << ": " << i - sums;
  }
}

// Of more runs than one kernel takes, some longer than a block; rule by rule, and back for the next run. Some have a
// penalty and no rule.
TEST_F(CudaKernels, RunsTogetherHaveTheBitsOfRunsOneByOne) {
  const auto updated = [&](bool together) {
    const FloatMemory& memory = gpu->shared_memory();
    const Kernels& k = kernels_for(memory);
    constexpr std::size_t runs = 75, room = 2100;
    FloatBuffer w(runs * room, memory), g(runs * room, memory), s(runs * room, memory);
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    for (FloatBuffer* f : {&w, &g, &s})
      for (float& x : f->span()) x = normal(engine);
    if (together) k.begin_together();
    for (std::size_t r = 0; r < runs; ++r) {
      const std::size_t at = r * room, n = r * r % room;
      if (r % 3 > 0) k.add_scaled(g.data() + at, w.data() + at, n, 0.01f * static_cast<float>(r));
      if (r % 7 > 0) k.momentum(w.data() + at, g.data() + at, s.data() + at, n, 0.9f, 0.1f / static_cast<float>(r + 1));
      if (r % 2 > 0) k.add_noise(w.data() + at, n, 0.01, 7, at);
    }
    if (together) k.end_together();
    memory.finish();
    Floats all(w.data(), w.data() + w.size());
    for (std::size_t r = 0; r < runs; r += 7) all.insert(all.end(), g.data() + r * room, g.data() + (r + 1) * room);
    return all;
  };
  EXPECT_EQ(updated(true), updated(false));
}

// More elements than the blocks of a sum take in one round.
TEST_F(CudaKernels, SumsOfManyElements) {
  FloatBuffer g(1500000, gpu->shared_memory());
  std::mt19937 engine(2);
  std::normal_distribution<float> normal;
  for (float& x : g.span()) x = normal(engine);
  const Kernels& kernels = kernels_for(g.memory());
  const double expected = portable_kernels().sum_of_squares(g.data(), g.size());
  const double got = kernels.sum_of_squares(g.data(), g.size());
  EXPECT_NEAR(got, expected, 1e-10 * expected);
  EXPECT_EQ(kernels.sum_of_squares(g.data(), g.size()), got);
}

}  // namespace
}  // namespace tutti::optim::cuda_kernels_test
