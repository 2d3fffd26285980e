// SPDX-License-Identifier: Apache-2.0
// Columns moved by number: packing, slices in time, gathering and scattering.
#include "backend/cuda/cuda_backend.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

__global__ void gather_each(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                            float* y) {
  for (std::size_t i = first_element(); i < columns * width; i += element_step()) {
    const std::int32_t c = from[i / width];
    y[i] = c < 0 ? 0.0f : x[static_cast<std::size_t>(c) * width + i % width];
  }
}

__global__ void replace_each(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                             float* y) {
  for (std::size_t i = first_element(); i < columns * width; i += element_step())
    if (const std::int32_t c = from[i / width]; c >= 0) y[i] = x[static_cast<std::size_t>(c) * width + i % width];
}

__global__ void scatter_each(const std::int32_t* place, const std::int64_t* begin, const std::int32_t* entries,
                             std::size_t groups, std::size_t width, const float* dy, float* dx) {
  for (std::size_t i = first_element(); i < groups * width; i += element_step()) {
    const std::size_t group = i / width, j = i % width;
    float& to = dx[static_cast<std::size_t>(place[group]) * width + j];
    float sum = to;
    for (auto e = begin[group]; e < begin[group + 1]; ++e) sum += dy[static_cast<std::size_t>(entries[e]) * width + j];
    to = sum;
  }
}

}  // namespace

void CudaTensors::gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) {
  if (from.size() * width == 0) return;
  const auto* list = uploaded(from.data(), from.size(), lists_[0]);
  launch(gather_each, blocks_for(from.size() * width), threads_per_block, stream(), list, from.size(), width, x, y);
}

void CudaTensors::replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                                  float* y) {
  if (const std::size_t count = columns * width)
    launch(replace_each, blocks_for(count), threads_per_block, stream(), from, columns, width, x, y);
}

void CudaTensors::scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) {
  groups_.assign(from);
  const std::size_t groups = groups_.place.size();
  if (groups * width == 0) return;
  const auto* place = uploaded(groups_.place.data(), groups, lists_[0]);
  const auto* begin = uploaded(groups_.begin.data(), groups + 1, lists_[1]);
  const auto* entries = uploaded(groups_.entries.data(), groups_.entries.size(), lists_[2]);
  launch(scatter_each, blocks_for(groups * width), threads_per_block, stream(), place, begin, entries, groups, width,
         dy, dx);
}

}  // namespace tutti::cuda
