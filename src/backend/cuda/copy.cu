// SPDX-License-Identifier: Apache-2.0
// Values set and strided copies: slices, stacks, transposed and repeated values, and their gradients; images reordered.
#include <cassert>

#include "backend/cuda/fold.h"
#include "backend/cuda/images.h"
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
  if (l.rank == 0 || l.stride[0][0] != 1 || l.stride[3][0] != 1 || !in_whole_lanes<T>(l.size[0], {x, y})) return false;
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
  launch_for(lanes ? copy_each<T, whole_lanes<T>> : copy_each<T, 1>, walk.count, stream, walk, x, y, add);
}

// Tiles through shared memory where the fast axes of both sides differ: y[i * ys + j] = x[i + j * xs].
__global__ void transpose_tile(std::size_t n, std::size_t m, const float* x, std::size_t xs, float* y, std::size_t ys,
                               bool add) {
  const std::size_t i0 = static_cast<std::size_t>(blockIdx.x) * tile, j0 = static_cast<std::size_t>(blockIdx.y) * tile;
  through_tile(
      [&](unsigned r, unsigned c, float& v) {
        if (i0 + c < n && j0 + r < m) v = x[i0 + c + (j0 + r) * xs];
      },
      [&](unsigned r, unsigned c, const float& v) {
        if (i0 + r >= n || j0 + c >= m) return;
        float& to = y[(i0 + r) * ys + j0 + c];
        to = add ? to + v : v;
      });
}

// The longer axis goes along the grid's first dimension, which may be large.
bool transposes(const Layout& l) {
  constexpr std::size_t most_blocks = 65535;
  return l.rank == 2 && l.stride[0][0] == 1 && l.stride[3][1] == 1 && l.stride[0][1] > 0 && l.stride[3][0] > 0 &&
         (l.size[1] + tile - 1) / tile <= most_blocks;
}

// ---- between the formats of images, plain and channels last, and between their types

template <class From, class To, unsigned V>
__global__ void convert_each(std::size_t count, const From* x, To* y, bool add) {
  for (std::size_t e = first_element() * V; e < count; e += element_step() * V) put(y + e, load<V>(x + e), add);
}

// Each column is a matrix of `rows` x `width`, which is turned over tile by tile.
template <class From, class To>
__global__ void turn_tiles(std::size_t columns, unsigned rows, unsigned width, const From* x, To* y, bool add) {
  const unsigned across = (width + tile - 1) / tile, down = (rows + tile - 1) / tile;
  for (std::size_t t = blockIdx.x; t < columns * across * down; t += gridDim.x) {
    const std::size_t column = t / (across * down);
    const auto in_column = static_cast<unsigned>(t - column * (across * down));
    const unsigned i0 = in_column / across * tile, j0 = in_column % across * tile;
    const From* from = x + column * rows * width;
    To* to = y + column * rows * width;
    through_tile(
        [&](unsigned r, unsigned c, float& v) {
          if (i0 + r < rows && j0 + c < width) v = value_of(from[std::size_t{i0 + r} * width + j0 + c]);
        },
        [&](unsigned r, unsigned c, const float& v) {
          if (j0 + r < width && i0 + c < rows) put(to + std::size_t{j0 + r} * rows + i0 + c, Lanes<1>{{v}}, add);
        });
    __syncthreads();
  }
}

}  // namespace

void CudaTensors::fill(float value, float* x, std::size_t count) {
  if (count == 0) return;
  const bool fours = in_whole_lanes<float>(count, {x});
  launch_for(fours ? fill_each<4> : fill_each<1>, fours ? count / 4 : count, stream(), value, x, count);
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

void CudaImages::reorder(const ImageExtent& from, const ImageExtent& to, const float* x, float* y, bool accumulate) {
  const std::size_t count = from.columns * from.channels * from.pixels;
  if (count == 0) return;
  const bool plain = from.format == Format::plain, turns = from.format != to.format;
  const auto rows = static_cast<unsigned>(plain ? from.channels : from.pixels),
             width = static_cast<unsigned>(plain ? from.pixels : from.channels);
  const std::size_t tiles = from.columns * ((rows + tile - 1) / tile) * ((width + tile - 1) / tile);
  with_types(from.element, to.element, [&](auto number, auto result) {
    using From = decltype(number);
    using To = decltype(result);
    if (turns)
      launch(turn_tiles<From, To>, blocks_for(tiles, 1), dim3(tile, rows_at_once), stream(), from.columns, rows, width,
             as<From>(x), as<To>(y), accumulate);
    else if (in_whole_lanes<float>(count, {x, y}))
      launch_for(convert_each<From, To, 4>, count / 4, stream(), count, as<From>(x), as<To>(y), accumulate);
    else
      launch_for(convert_each<From, To, 1>, count, stream(), count, as<From>(x), as<To>(y), accumulate);
  });
}

}  // namespace tutti::cuda
