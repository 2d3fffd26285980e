// SPDX-License-Identifier: Apache-2.0
// Between the formats of images: plain, and channels last; and between their types.
#include "backend/cuda/images.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/tile.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

template <class From, class To, unsigned V>
__global__ void convert_each(std::size_t count, const From* x, To* y, bool add) {
  for (std::size_t e = first_element() * V; e < count; e += element_step() * V) put(y + e, load<V>(x + e), add);
}

// Each column is a matrix of `rows` x `width`, which is turned over tile by tile.
template <class From, class To>
__global__ void turn_tiles(std::size_t columns, unsigned rows, unsigned width, const From* x, To* y, bool add) {
  __shared__ float values[tile][tile + 1];
  const unsigned across = (width + tile - 1) / tile, down = (rows + tile - 1) / tile;
  for (std::size_t t = blockIdx.x; t < columns * across * down; t += gridDim.x) {
    const std::size_t column = t / (across * down);
    const auto in_column = static_cast<unsigned>(t - column * (across * down));
    const unsigned i0 = in_column / across * tile, j0 = in_column % across * tile;
    const From* from = x + column * rows * width;
    To* to = y + column * rows * width;
    for (unsigned r = threadIdx.y; r < tile; r += rows_at_once)
      if (i0 + r < rows && j0 + threadIdx.x < width)
        values[r][threadIdx.x] = value_of(from[std::size_t{i0 + r} * width + j0 + threadIdx.x]);
    __syncthreads();
    for (unsigned r = threadIdx.y; r < tile; r += rows_at_once)
      if (j0 + r < width && i0 + threadIdx.x < rows)
        put(to + std::size_t{j0 + r} * rows + i0 + threadIdx.x, Lanes<1>{{values[threadIdx.x][r]}}, add);
    __syncthreads();
  }
}

}  // namespace

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
    else if (in_fours(count, x, y))
      launch(convert_each<From, To, 4>, blocks_for(count / 4), threads_per_block, stream(), count, as<From>(x),
             as<To>(y), accumulate);
    else
      launch(convert_each<From, To, 1>, blocks_for(count), threads_per_block, stream(), count, as<From>(x), as<To>(y),
             accumulate);
  });
}

}  // namespace tutti::cuda
