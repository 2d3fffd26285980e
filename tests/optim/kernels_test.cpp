// SPDX-License-Identifier: Apache-2.0
// The same bits from every instruction set this processor has.
#include "optim/kernels.h"

#include <limits>

#include "kernel_checks.h"

namespace tutti::optim::kernels_test {
namespace {

std::vector<const Kernels*> available() {
  std::vector<const Kernels*> all;
  for_each_set([&]<InstructionSet set>() { all.push_back(&kernels<set>()); });
  return all;
}

TEST(Kernels, GiveTheSameBitsInEveryWidth) {
  const auto all = available();
  for (const std::size_t n : {0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 1000, 2048, 4099})
    for (const std::size_t misalign : {0, 1, 5}) {
      const Floats expected = run_all(*all[0], n, misalign);
      for (const Kernels* k : all) EXPECT_EQ(run_all(*k, n, misalign), expected) << k->name << " " << n;
    }
}

// Two loops that devices do not have.
TEST(Kernels, OfAStandingVarianceGiveTheSameBitsInEveryWidth) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 33, 1000, 4099}) {
    Floats before;
    for (const Kernels* k : available()) {
      std::mt19937 engine(static_cast<unsigned>(n));
      std::normal_distribution<float> normal;
      Floats w(n), g(n), m(n), v(n);
      for (Floats* f : {&w, &g, &m, &v})
        for (float& x : *f) x = normal(engine);
      for (float& x : v) x = engine() % 5 ? x * x : 0.0f;
      const Floats weights = w;
      for (int round = 0; round < 3; ++round) {
        k->run(Contribute{g.data(), m.data(), v.data(), 0.3f, 0.1f}, n);
        k->run(FrozenAdam{w.data(), g.data(), m.data(), v.data(), {0.9f, 0.999f, 0.01f, 0.1f, 3.0f, 1e-8f}}, n);
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (v[i] != 0) continue;
        EXPECT_EQ(w[i], weights[i]);
        EXPECT_EQ(m[i], 0.0f);
        EXPECT_EQ(g[i], 0.0f);
      }
      for (const Floats* f : {&g, &m}) w.insert(w.end(), f->begin(), f->end());
      if (k == available()[0]) before = w;
      EXPECT_EQ(w, before) << k->name << " " << n;
    }
  }
}

TEST(Kernels, SumsRunInSixteenLanes) {
  Floats g(1003);
  std::mt19937 engine(2);
  std::normal_distribution<float> normal;
  for (float& x : g) x = normal(engine);
  double lanes[16] = {}, all = 0;
  for (std::size_t i = 0; i < g.size(); ++i) lanes[i % 16] += static_cast<double>(g[i]) * g[i];
  for (double l : lanes) all += l;
  for (const Kernels* k : available()) {
    double sum = 0;
    k->run(Squares{g.data()}, g.size(), &sum);
    EXPECT_EQ(sum, all) << k->name;
  }
}

}  // namespace
}  // namespace tutti::optim::kernels_test
