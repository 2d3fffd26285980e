// SPDX-License-Identifier: Apache-2.0
// Sparse inputs: products with their weight, line by line of the weight, and the dense form for everything else. What
// the host has listed is uploaded with each call.
#include "backend/cuda/cuda_backend.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

// Offsets in `begin` count from the stream's start, values and indices from the first of these columns.
struct Columns {
  std::size_t columns;
  const float* values;
  const std::int32_t* indices;
  const std::int64_t* begin;
  std::int64_t first;
};

__global__ void times_each(Columns x, SparseWeight s, const float* w, float* y) {
  for (std::size_t e = first_element(); e < x.columns * s.out; e += element_step()) {
    const std::size_t c = e / s.out, o = e % s.out;
    float sum = 0;
    for (auto i = x.begin[c] - x.first; i < x.begin[c + 1] - x.first; ++i)
      sum += x.values[i] * w[static_cast<std::size_t>(x.indices[i]) * s.index_stride + o * s.out_stride];
    y[e] = sum;
  }
}

struct Touches {
  std::size_t groups;
  const std::int32_t *place, *entries, *column;
  const std::int64_t* begin;
  const float* values;
};

__global__ void gradient_each(Touches t, SparseWeight s, const float* dy, float* dw) {
  for (std::size_t i = first_element(); i < t.groups * s.out; i += element_step()) {
    const std::size_t group = i / s.out, o = i % s.out;
    float& to = dw[static_cast<std::size_t>(t.place[group]) * s.index_stride + o * s.out_stride];
    float sum = to;
    for (auto e = t.begin[group]; e < t.begin[group + 1]; ++e) {
      const std::int32_t entry = t.entries[e];
      sum += t.values[entry] * dy[static_cast<std::size_t>(t.column[entry]) * s.out + o];
    }
    to = sum;
  }
}

__global__ void densify_columns(Columns x, std::size_t dim, float* y) {
  for (std::size_t c = first_element(); c < x.columns; c += element_step())
    for (auto i = x.begin[c] - x.first; i < x.begin[c + 1] - x.first; ++i)
      y[c * dim + static_cast<std::size_t>(x.indices[i])] += x.values[i];
}

__global__ void clear_columns(const std::uint32_t* lines, std::size_t count, std::size_t rows, float* x) {
  for (std::size_t e = first_element(); e < count * rows; e += element_step()) x[lines[e / rows] * rows + e % rows] = 0;
}

__global__ void clear_rows(const std::uint32_t* lines, std::size_t count, std::size_t rows, std::size_t columns,
                           float* x) {
  for (std::size_t e = first_element(); e < count * columns; e += element_step())
    x[e / count * rows + lines[e % count]] = 0;
}

std::size_t entries_of(const SparseView& x) { return static_cast<std::size_t>(x.begin[x.columns] - x.begin[0]); }

// ---- columns moved by number: packing, slices in time, gathering and scattering

// Columns that come from nowhere are cleared, or stay.
template <bool Clears>
__global__ void gather_each(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                            float* y) {
  for (std::size_t i = first_element(); i < columns * width; i += element_step()) {
    const std::int32_t c = from[i / width];
    if (Clears || c >= 0) y[i] = c < 0 ? 0.0f : x[static_cast<std::size_t>(c) * width + i % width];
  }
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

void CudaTensors::sparse_times(const SparseView& x, const SparseWeight& s, const float* w, float* y) {
  if (x.columns * s.out == 0) return;
  const std::size_t n = entries_of(x);
  const Columns columns{x.columns, uploaded(x.values + x.begin[0], n, lists_[0]),
                        uploaded(x.indices + x.begin[0], n, lists_[1]), uploaded(x.begin, x.columns + 1, lists_[2]),
                        x.begin[0]};
  launch_for(times_each, x.columns * s.out, stream(), columns, s, w, y);
}

void CudaTensors::sparse_times_gradient(const SparseView& x, const SparseWeight& s, const float* dy, float* dw) {
  if (x.columns == 0) return;
  const std::size_t n = entries_of(x);
  groups_.assign({x.indices + x.begin[0], n});
  if (groups_.place.size() * s.out == 0) return;
  columns_.clear();
  for (std::size_t c = 0; c < x.columns; ++c)
    columns_.resize(static_cast<std::size_t>(x.begin[c + 1] - x.begin[0]), static_cast<std::int32_t>(c));
  const Touches touches{groups_.place.size(),
                        uploaded(groups_.place.data(), groups_.place.size(), lists_[0]),
                        uploaded(groups_.entries.data(), n, lists_[1]),
                        uploaded(columns_.data(), n, lists_[2]),
                        uploaded(groups_.begin.data(), groups_.begin.size(), lists_[3]),
                        uploaded(x.values + x.begin[0], n, lists_[4])};
  launch_for(gradient_each, touches.groups * s.out, stream(), touches, s, dy, dw);
}

void CudaTensors::densify(const SparseView& x, std::size_t dim, float* y) {
  if (x.columns * dim == 0) return;
  fill(0, y, x.columns * dim);
  const std::size_t n = entries_of(x);
  const Columns columns{x.columns, uploaded(x.values + x.begin[0], n, lists_[0]),
                        uploaded(x.indices + x.begin[0], n, lists_[1]), uploaded(x.begin, x.columns + 1, lists_[2]),
                        x.begin[0]};
  launch_for(densify_columns, x.columns, stream(), columns, dim, y);
}

void CudaTensors::clear_sparse_rows(const Slice& s, std::span<const std::uint32_t> lines, FloatBuffer& gradients) {
  const std::size_t count = lines.size() * s.sparse_row_size();
  if (count == 0) return;
  const std::uint32_t* const listed = uploaded(lines.data(), lines.size(), lists_[0]);
  float* const x = gradients.data() + s.offset;
  if (s.sparse_by_row)
    launch_for(clear_rows, count, stream(), listed, lines.size(), s.rows, s.columns, x);
  else
    launch_for(clear_columns, count, stream(), listed, lines.size(), s.rows, x);
}

void CudaTensors::gather_columns(std::span<const std::int32_t> from, std::size_t width, const float* x, float* y) {
  if (from.size() * width == 0) return;
  const auto* list = uploaded(from.data(), from.size(), lists_[0]);
  launch_for(gather_each<true>, from.size() * width, stream(), list, from.size(), width, x, y);
}

void CudaTensors::replace_columns(const std::int32_t* from, std::size_t columns, std::size_t width, const float* x,
                                  float* y) {
  if (const std::size_t count = columns * width)
    launch_for(gather_each<false>, count, stream(), from, columns, width, x, y);
}

void CudaTensors::scatter_columns(std::span<const std::int32_t> from, std::size_t width, const float* dy, float* dx) {
  groups_.assign(from);
  const std::size_t groups = groups_.place.size();
  if (groups * width == 0) return;
  const auto* place = uploaded(groups_.place.data(), groups, lists_[0]);
  const auto* begin = uploaded(groups_.begin.data(), groups + 1, lists_[1]);
  const auto* entries = uploaded(groups_.entries.data(), groups_.entries.size(), lists_[2]);
  launch_for(scatter_each, groups * width, stream(), place, begin, entries, groups, width, dy, dx);
}

}  // namespace tutti::cuda
