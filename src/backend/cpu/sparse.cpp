// SPDX-License-Identifier: Apache-2.0
// Sparse inputs: products with their weight, row by row of the weight, and conversion to dense values for everything
// else.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {

void CpuBackend::sparse_times(const SparseView& x, const SparseWeight& s, const float* w, float* y) {
  parallel(x.columns, 1, s.out * 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      float* to = y + c * s.out;
      std::fill(to, to + s.out, 0.0f);
      for (auto i = x.begin[c]; i < x.begin[c + 1]; ++i) {
        const float* line = w + static_cast<std::size_t>(x.indices[i]) * s.index_stride;
        if (s.out_stride == 1) {
          kernels_.add_scaled(x.values[i], line, to, s.out);
          continue;
        }
        for (std::size_t o = 0; o < s.out; ++o) to[o] += x.values[i] * line[o * s.out_stride];
      }
    }
  });
}

// Threads take columns of the output, not samples, because several samples may use the same row of the weight.
void CpuBackend::sparse_times_gradient(const SparseView& x, const SparseWeight& s, const float* dy, float* dw) {
  parallel(s.out, 16, x.columns * 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = 0; c < x.columns; ++c) {
      const float* from = dy + c * s.out;
      for (auto i = x.begin[c]; i < x.begin[c + 1]; ++i) {
        float* line = dw + static_cast<std::size_t>(x.indices[i]) * s.index_stride;
        if (s.out_stride == 1) {
          kernels_.add_scaled(x.values[i], from + begin, line + begin, end - begin);
          continue;
        }
        for (std::size_t o = begin; o < end; ++o) line[o * s.out_stride] += x.values[i] * from[o];
      }
    }
  });
}

void CpuBackend::densify(const SparseView& x, std::size_t dim, float* y) {
  parallel(x.columns, 1, dim, [&](std::size_t begin, std::size_t end) {
    std::memset(y + begin * dim, 0, (end - begin) * dim * sizeof(float));
    for (std::size_t c = begin; c < end; ++c)
      for (auto i = x.begin[c]; i < x.begin[c + 1]; ++i)
        y[c * dim + static_cast<std::size_t>(x.indices[i])] += x.values[i];
  });
}

}  // namespace tutti::cpu
