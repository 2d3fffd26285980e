// SPDX-License-Identifier: Apache-2.0
// Strided copies: slices, stacks, transposed and repeated values, and their gradients.
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

void copy_row(const Kernels& kernels, const Layout& l, const float* x, float* y, bool accumulate) {
  const std::size_t n = l.size[0], from = l.stride[0][0], to = l.stride[3][0];
  if (from == 1 && to == 1) {
    if (accumulate)
      kernels.add(x, y, n);
    else
      std::memcpy(y, x, n * sizeof(float));
  } else if (accumulate && to == 0 && from == 1) {
    *y += kernels.sum(x, n);
  } else if (accumulate) {
    for (std::size_t i = 0; i < n; ++i) y[i * to] += x[i * from];
  } else {
    for (std::size_t i = 0; i < n; ++i) y[i * to] = x[i * from];
  }
}

}  // namespace

void CpuTensors::copy(const Layout& layout, const float* x, float* y, bool accumulate) {
  const Layout l = joined(layout, 1);
  if (elements(l) == 0) return;
  const auto rows = [&](std::size_t begin, std::size_t end) {
    each_row(l, begin, end, [&](const auto& at) { copy_row(kernels_, l, x + at[0], y + at[3], accumulate); });
  };
  if (repeats(l, 3))
    rows(0, row_count(l));
  else
    parallel(row_count(l), 1, l.size[0], rows);
}

}  // namespace tutti::cpu
