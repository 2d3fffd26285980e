// SPDX-License-Identifier: Apache-2.0
// Columns moved by number: packing, slices in time, gathering and scattering.
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {

void CpuTensors::gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) {
  parallel(from.size(), 1, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c)
      if (from[c] < 0)
        std::memset(y + c * width, 0, width * sizeof(float));
      else
        std::memcpy(y + c * width, x + static_cast<std::size_t>(from[c]) * width, width * sizeof(float));
  });
}

// One thread: a column may be the target of several.
void CpuTensors::scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) {
  for (std::size_t c = 0; c < from.size(); ++c)
    if (from[c] >= 0) kernels_.add(dy + c * width, dx + static_cast<std::size_t>(from[c]) * width, width);
}

void CpuTensors::replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                                 float* y) {
  for (std::size_t c = 0; c < columns; ++c)
    if (from[c] >= 0) std::memcpy(y + c * width, x + static_cast<std::size_t>(from[c]) * width, width * sizeof(float));
}

}  // namespace tutti::cpu
