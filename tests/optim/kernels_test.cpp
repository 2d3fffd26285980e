// SPDX-License-Identifier: Apache-2.0
// The same bits from every instruction set this processor has.
#include "optim/kernels.h"

#include <limits>

#include "support.h"

namespace tutti::optim {
namespace {

using testing::Floats;

std::vector<const Kernels*> available() {
  std::vector<const Kernels*> all{&portable_kernels()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all.push_back(&avx2_kernels());
  if (__builtin_cpu_supports("avx512f")) all.push_back(&avx512_kernels());
#endif
  return all;
}

// Runs every kernel twice in a row over the same arrays and returns all that they computed.
Floats run_all(const Kernels& k, std::size_t n, std::size_t misalign) {
  std::mt19937 engine(static_cast<unsigned>(n));
  std::normal_distribution<float> normal;
  std::vector<Floats> v(5, Floats(n + misalign));
  for (Floats& f : v)
    for (float& x : f) x = engine() % 11 ? normal(engine) : 0.0f;
  for (float& x : v[2]) x = x * x;  // squares
  for (float& x : v[3]) x = x * x;
  float *w = v[0].data() + misalign, *g = v[1].data() + misalign, *a = v[2].data() + misalign,
        *b = v[3].data() + misalign, *c = v[4].data() + misalign;
  Floats sums;
  for (int round = 0; round < 2; ++round) {
    k.descend(w, g, n, 0.1f);
    k.momentum(w, g, c, n, 0.9f, 0.01f);
    k.nesterov(w, g, c, n, 0.9f, 0.01f);
    k.sparse_momentum(w, g, c, n, 0.9f, 0.01f);
    k.sparse_nesterov(w, g, c, n, 0.9f, 0.01f);
    k.truncate(g, n, 1.5f);
    k.scale(g, n, 1.1f);
    k.add_scaled(g, w, n, 0.01f);
    k.shrink(w, n, 0.05f);
    sums.push_back(static_cast<float>(k.sum_of_squares(g, n)));
    k.fs_adagrad(w, g, a, c, n, {0.9f, 1.3f, 0.9f, 0.01f});
    k.fs_adagrad(w, g, a, c, n, {0.9f, 1.3f, 0.0f, 0.01f});
    k.adam(w, g, c, b, n, {0.9f, 0.999f, 0.01f, 0.1f, 3.0f, 1e-8f});
    k.rms_prop_textbook(w, g, a, n, {0.9f, 0.01f, 0.1f, 1e-8f});
    sums.push_back(static_cast<float>(k.adagrad(g, a, n)));
    sums.push_back(static_cast<float>(k.rms_prop(g, a, b, c, n, {0.99f, 1.2f, 0.75f, 10.0f, 0.1f})));
  }
  for (const Floats& f : v) sums.insert(sums.end(), f.begin(), f.end());
  return sums;
}

TEST(Kernels, GiveTheSameBitsInEveryWidth) {
  const auto all = available();
  for (const std::size_t n : {0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 1000, 2048, 4099})
    for (const std::size_t misalign : {0, 1, 5}) {
      const Floats expected = run_all(*all[0], n, misalign);
      for (const Kernels* k : all) EXPECT_EQ(run_all(*k, n, misalign), expected) << k->name << " " << n;
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
  for (const Kernels* k : available()) EXPECT_EQ(k->sum_of_squares(g.data(), g.size()), all) << k->name;
}

}  // namespace
}  // namespace tutti::optim
