// SPDX-License-Identifier: Apache-2.0
// Sparse inputs: products with their weight, row by row of the weight, and the dense form for everything else.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {

void CpuBackend::sparse_times(const SparseView& x, std::size_t out, const float* w, float* y) {
  parallel(x.columns, 1, out * 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      std::fill(y + c * out, y + (c + 1) * out, 0.0f);
      for (auto i = x.begin[c]; i < x.begin[c + 1]; ++i)
        kernels_.add_scaled(x.values[i], w + static_cast<std::size_t>(x.indices[i]) * out, y + c * out, out);
    }
  });
}

// Columns of the output are dealt out, not samples: several samples may touch the same row of the weight.
void CpuBackend::sparse_times_gradient(const SparseView& x, std::size_t out, const float* dy, float* dw) {
  parallel(out, 16, x.columns * 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = 0; c < x.columns; ++c)
      for (auto i = x.begin[c]; i < x.begin[c + 1]; ++i)
        kernels_.add_scaled(x.values[i], dy + c * out + begin,
                            dw + static_cast<std::size_t>(x.indices[i]) * out + begin, end - begin);
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
