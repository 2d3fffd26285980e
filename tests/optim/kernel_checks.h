// SPDX-License-Identifier: Apache-2.0
// kernel_checks.h -- all element loops of a table, for comparing tables; over memory that they can work on.
#pragma once

#include <algorithm>

#include "optim/kernels.h"
#include "support.h"

namespace tutti::optim {

using testing::Floats;

constexpr int sums_of_run = 5;

// Runs every kernel twice in a row over the same arrays and returns all that they
// computed, sums first.
inline Floats run_all(const Kernels& k, std::size_t n, std::size_t misalign,
                      const FloatMemory& memory = host_memory()) {
  std::mt19937 engine(static_cast<unsigned>(n));
  std::normal_distribution<float> normal;
  std::vector<FloatBuffer> v;
  for (int i = 0; i < 5; ++i) v.emplace_back(n + misalign, memory);
  for (FloatBuffer& f : v)
    for (float& x : f.span()) x = engine() % 11 ? normal(engine) : 0.0f;
  for (float& x : v[2].span()) x = x * x;  // squares
  for (float& x : v[3].span()) x = x * x;
  float *w = v[0].data() + misalign, *g = v[1].data() + misalign, *a = v[2].data() + misalign,
        *b = v[3].data() + misalign, *c = v[4].data() + misalign;
  FloatBuffer sum_workspace(6 * sizeof(double) / sizeof(float), memory);
  auto* const sums = reinterpret_cast<double*>(sum_workspace.data());
  double* const of_one = sums + 5;  // in no order
  k.clear_sums(sums, 6);
  for (int round = 0; round < 2; ++round) {
    k.run(Descend{w, g, 0.1f}, n);
    k.run(Momentum{w, g, c, 0.9f, 0.01f, 1.0f}, n);
    k.run(Nesterov{w, g, c, 0.9f, 0.01f, 1.0f}, n);
    k.run(Momentum{w, g, c, 0.9f, 1.0f - 0.9f, 0.01f}, n);
    k.run(Nesterov{w, g, c, 0.9f, 1.0f - 0.9f, 0.01f}, n);
    k.run(Truncate{g, 1.5f}, n);
    k.run(AddScaled{g, w, 0.01f}, n);
    k.run(Shrink{w, 0.05f}, n);
    k.run(Squares{g}, n, sums);
    k.run(Squares{g}, std::min<std::size_t>(n, 1), of_one);
    k.run(LimitNorm{g, of_one, 0.25}, n);
    k.run(DescendByMean{w, g, 0.1f, of_one, 2}, n);
    k.run(Noise{w, 0.01, 7, 1000}, n);
    k.run(FsAdagrad<true>{w, g, a, c, {0.9f, 1.3f, 0.9f, 0.01f}}, n);
    k.run(FsAdagrad<false>{w, g, a, c, {0.9f, 1.3f, 0.0f, 0.01f}}, n);
    k.run(Adam{w, g, c, b, {0.9f, 0.999f, 0.01f, 0.1f, 3.0f, 1e-8f}}, n);
    k.run(AdamW{w, g, c, b, {0.9f, 0.999f, 0.01f, 0.1f, 3.0f, 1e-8f}, 0.99f}, n);
    k.run(DescendByTrust{w, g, 0.1f, sums, of_one}, n);
    k.run(Lars{w, g, c, 0.9f, 0.01f, 0.5f, 0.1f, of_one, sums}, n);
    k.run(MoveTowards{w, g, 0.1f}, n);
    k.run(LambDirection{w, g, c, b, {0.9f, 0.999f, 0.01f, 1.1f, 3.0f, 1e-8f}, 0.1f}, n, sums + 3);
    k.run(Mean{g, 2.0f}, n, sums + 4);
    k.run(Textbook{w, g, a, {0.9f, 0.01f, 0.1f, 1e-8f}}, n);
    k.run(Adagrad{g, a}, n, round == 0 ? sums + 1 : nullptr);
    k.run(RmsProp{g, a, b, c, {0.99f, 1.2f, 0.75f, 10.0f, 0.1f}}, n, sums + 2);
  }
  k.clear(v[4].data(), v[4].size() / 2);
  memory.synchronize();
  Floats all;
  for (int i = 0; i < sums_of_run; ++i) all.push_back(static_cast<float>(sums[i]));
  for (const FloatBuffer& f : v) all.insert(all.end(), f.data(), f.data() + f.size());
  return all;
}

}  // namespace tutti::optim
