// SPDX-License-Identifier: Apache-2.0
// Values set and strided copies: slices, stacks, transposed and repeated values, and their gradients.
#include <cassert>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/fold.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/tile.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

template <unsigned V>
__global__ void fill_each(float value, float* x, std::size_t count) {
  Lanes<V> v;
  for (unsigned l = 0; l < V; ++l) v.at[l] = value;
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) store(x + i, v);
}

struct Value {
  const float* x;
  __device__ float operator()(const Places& p) const { return x[p.at[0]]; }
};

// The walk counts in V numbers.
template <class T, unsigned V>
__global__ void copy_each(Walk walk, const T* x, T* y, bool add) {
  for (std::size_t i = first_element(); i < walk.count; i += element_step()) {
    Places p;
    advance(walk, i, p);
    put(y + p.at[3] * V, load<V>(x + p.at[0] * V), add);
  }
}

// The same copy in groups of 16 bytes, where the fastest axis of both sides is made of them.
template <class T>
bool copies_whole_lanes(Layout& l, const T* x, const T* y) {
  constexpr unsigned lanes = whole_lanes<T>;
  if (l.rank == 0 || l.stride[0][0] != 1 || l.stride[3][0] != 1 || !in_whole_lanes<T>(l.size[0], x, y)) return false;
  for (const std::size_t k : {0, 3})
    for (std::size_t axis = 1; axis < l.rank; ++axis)
      if (l.stride[k][axis] % lanes != 0) return false;
  l.size[0] /= lanes;
  for (const std::size_t k : {0, 3})
    for (std::size_t axis = 1; axis < l.rank; ++axis) l.stride[k][axis] /= lanes;
  return true;
}

template <class T>
void copy_lines(Layout l, const T* x, T* y, bool add, cudaStream_t stream) {
  const bool lanes = copies_whole_lanes(l, x, y);
  const Walk walk = whole(l);
  launch(lanes ? copy_each<T, whole_lanes<T>> : copy_each<T, 1>, blocks_for(walk.count), threads_per_block, stream,
         walk, x, y, add);
}

// Tiles through shared memory where the fast axes of both sides differ: y[i * ys + j] = x[i + j * xs].
__global__ void transpose_tile(std::size_t n, std::size_t m, const float* x, std::size_t xs, float* y, std::size_t ys,
                               bool add) {
  __shared__ float values[tile][tile + 1];
  const std::size_t i0 = static_cast<std::size_t>(blockIdx.x) * tile, j0 = static_cast<std::size_t>(blockIdx.y) * tile;
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once)
    if (i0 + threadIdx.x < n && j0 + r < m) values[r][threadIdx.x] = x[i0 + threadIdx.x + (j0 + r) * xs];
  __syncthreads();
  for (unsigned r = threadIdx.y; r < tile; r += rows_at_once)
    if (i0 + r < n && j0 + threadIdx.x < m) {
      float& to = y[(i0 + r) * ys + j0 + threadIdx.x];
      to = add ? to + values[threadIdx.x][r] : values[threadIdx.x][r];
    }
}

// The longer axis goes along the grid's first dimension, which may be large.
bool transposes(const Layout& l) {
  constexpr std::size_t most_blocks = 65535;
  return l.rank == 2 && l.stride[0][0] == 1 && l.stride[3][1] == 1 && l.stride[0][1] > 0 && l.stride[3][0] > 0 &&
         (l.size[1] + tile - 1) / tile <= most_blocks;
}

}  // namespace

void CudaTensors::fill(float value, float* x, std::size_t count) {
  if (count == 0) return;
  const bool fours = in_fours(count, x);
  launch(fours ? fill_each<4> : fill_each<1>, blocks_for(fours ? count / 4 : count), threads_per_block, stream(), value,
         x, count);
}

void CudaTensors::copy(const Layout& layout, const float* x, float* y, bool accumulate) {
  Layout l = cpu::joined(layout, 1);
  if (cpu::elements(l) == 0) return;
  for (std::size_t k = 1; k < 3; ++k) l.stride[k] = {};
  if (layout.element != Element::float32) {
    assert(!cpu::repeats(l, 3));
    return with_type(layout.element, [&](auto number) {
      copy_lines(l, as<decltype(number)>(x), as<decltype(number)>(y), accumulate, stream());
    });
  }
  if (accumulate && cpu::repeats(l, 3)) return fold(l, 3, Value{x}, y, true, stream());
  if (transposes(l))
    return launch(transpose_tile,
                  dim3(static_cast<unsigned>((l.size[0] + tile - 1) / tile),
                       static_cast<unsigned>((l.size[1] + tile - 1) / tile)),
                  dim3(tile, rows_at_once), stream(), l.size[0], l.size[1], x, l.stride[0][1], y, l.stride[3][0],
                  accumulate);
  copy_lines(l, x, y, accumulate, stream());
}

}  // namespace tutti::cuda
