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
    const Floats expected = run_all(optim::kernels<InstructionSet::portable>(), n, 1),
                 got = run_all(kernels_for(memory), n, 1, memory);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      if (i < sums_of_run)
        EXPECT_FLOAT_EQ(got[i], expected[i]) << n;
      else
        ASSERT_EQ(got[i], expected[i]) << n << ": " << i - sums_of_run;
  }
}

// Of more runs than one kernel takes, some longer than a block; rule by rule, and back for the next run. Some have a
// penalty and no rule.
TEST_F(CudaKernels, RunsTogetherHaveTheBitsOfRunsOneByOne) {
  const auto updated = [&](bool together) {
    const FloatMemory& memory = gpu->shared_memory();
    const Kernels& k = kernels_for(memory);
    constexpr std::size_t runs = 75, workspace = 2100;
    FloatBuffer w(runs * workspace, memory), g(runs * workspace, memory), s(runs * workspace, memory);
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    for (FloatBuffer* f : {&w, &g, &s})
      for (float& x : f->span()) x = normal(engine);
    if (together) k.begin_together();
    for (std::size_t r = 0; r < runs; ++r) {
      const std::size_t at = r * workspace, n = r * r % workspace;
      if (r % 3 > 0) k.run(AddScaled{g.data() + at, w.data() + at, 0.01f * static_cast<float>(r)}, n);
      if (r % 7 > 0)
        k.run(Momentum{w.data() + at, g.data() + at, s.data() + at, 0.9f, 0.1f / static_cast<float>(r + 1), 1.0f}, n);
      if (r % 2 > 0) k.run(Noise{w.data() + at, 0.01, 7, at}, n);
    }
    if (together) k.end_together();
    memory.synchronize();
    Floats all(w.data(), w.data() + w.size());
    for (std::size_t r = 0; r < runs; r += 7)
      all.insert(all.end(), g.data() + r * workspace, g.data() + (r + 1) * workspace);
    return all;
  };
  EXPECT_EQ(updated(true), updated(false));
}

// Parameters of several runs each, whose sums change what comes behind them.
TEST_F(CudaKernels, SumsTogetherHaveTheBitsOfSumsOneByOne) {
  const auto updated = [&](bool together) {
    const FloatMemory& memory = gpu->shared_memory();
    const Kernels& k = kernels_for(memory);
    constexpr std::size_t parameters = 37, runs = 3, workspace = 1300;
    FloatBuffer w(parameters * runs * workspace, memory), g(w.size(), memory), a(w.size(), memory);
    FloatBuffer sum_workspace(2 * parameters * sizeof(double) / sizeof(float), memory);
    auto* const sums = reinterpret_cast<double*>(sum_workspace.data());
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    for (FloatBuffer* f : {&w, &g, &a})
      for (float& x : f->span()) x = normal(engine);
    for (float& x : a.span()) x *= x;
    k.clear_sums(sums, 2 * parameters);
    if (together) k.begin_together();
    for (std::size_t p = 0; p < parameters; ++p) {
      double *const squares = sums + 2 * p, *const multipliers = squares + 1;
      const auto each_run = [&](auto body) {
        for (std::size_t r = 0; r < runs; ++r) body((p * runs + r) * workspace, (p * 500 + r * 70) % workspace);
      };
      each_run([&](std::size_t at, std::size_t n) { k.run(Squares{g.data() + at}, n, squares); });
      each_run([&](std::size_t at, std::size_t n) { k.run(LimitNorm{g.data() + at, squares, 30}, n); });
      each_run([&](std::size_t at, std::size_t n) {
        k.run(Truncate{g.data() + at, 1.5f}, n);
        if (p % 3 > 0) k.run(AddScaled{g.data() + at, w.data() + at, 0.1f}, n);
        k.run(Adagrad{g.data() + at, a.data() + at}, n, p % 4 > 0 ? multipliers : nullptr);
        if (p % 4 == 0) k.run(Descend{w.data() + at, g.data() + at, 0.1f}, n);
      });
      if (p % 4 > 0)
        each_run([&](std::size_t at, std::size_t n) {
          k.run(DescendByMean{w.data() + at, g.data() + at, 0.1f, multipliers, 1000}, n);
          k.run(Shrink{w.data() + at, 0.01f}, n);
        });
    }
    if (together) k.end_together();
    memory.synchronize();
    Floats all;
    for (FloatBuffer* f : {&w, &g, &a}) all.insert(all.end(), f->data(), f->data() + f->size());
    for (std::size_t i = 0; i < 2 * parameters; ++i) all.push_back(static_cast<float>(sums[i]));
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
  double expected = 0;
  optim::kernels<InstructionSet::portable>().run(Squares{g.data()}, g.size(), &expected);
  FloatBuffer workspace(2 * sizeof(double) / sizeof(float), g.memory());
  const auto* const sums = reinterpret_cast<const double*>(workspace.data());
  for (int i = 0; i < 2; ++i) kernels.run(Squares{g.data()}, g.size(), reinterpret_cast<double*>(workspace.data()) + i);
  g.memory().synchronize();
  EXPECT_NEAR(sums[0], expected, 1e-10 * expected);
  EXPECT_EQ(sums[1], sums[0]);
}

}  // namespace
}  // namespace tutti::optim::cuda_kernels_test
