// SPDX-License-Identifier: Apache-2.0
// The element loops for GPUs against those of the host: elements bit for bit, sums to the precision of their order.
#include "../../support/on_gpu.h"
#include "../kernel_checks.h"

namespace tutti::optim {
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
}  // namespace tutti::optim
