// SPDX-License-Identifier: Apache-2.0
// Between the formats of images: plain, and channels last.
#include "backend/cuda/images.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

__global__ void add_each(std::size_t count, const float* x, float* y) {
  for (std::size_t e = first_element(); e < count; e += element_step()) y[e] += x[e];
}

// Each column is a matrix of `rows` x `width`, which is turned over tile by tile: both sides see whole lines of memory.
constexpr unsigned tile = 32, rows_at_once = 8;
__global__ void turn_tiles(std::size_t columns, unsigned rows, unsigned width, const float* x, float* y, bool add) {
  __shared__ float values[tile][tile + 1];
  const unsigned across = (width + tile - 1) / tile, down = (rows + tile - 1) / tile;
  for (std::size_t t = blockIdx.x; t < columns * across * down; t += gridDim.x) {
    const std::size_t column = t / (across * down);
    const auto in_column = static_cast<unsigned>(t - column * (across * down));
    const unsigned i0 = in_column / across * tile, j0 = in_column % across * tile;
    const float* from = x + column * rows * width;
    float* to = y + column * rows * width;
    for (unsigned r = threadIdx.y; r < tile; r += rows_at_once)
      if (i0 + r < rows && j0 + threadIdx.x < width)
        values[r][threadIdx.x] = from[std::size_t{i0 + r} * width + j0 + threadIdx.x];
    __syncthreads();
    for (unsigned r = threadIdx.y; r < tile; r += rows_at_once)
      if (j0 + r < width && i0 + threadIdx.x < rows) {
        float& target = to[std::size_t{j0 + r} * rows + i0 + threadIdx.x];
        target = add ? target + values[threadIdx.x][r] : values[threadIdx.x][r];
      }
    __syncthreads();
  }
}

}  // namespace

void CudaImages::reorder(const ImageExtent& from, Format to, const float* x, float* y, bool accumulate) {
  const std::size_t count = from.columns * from.channels * from.pixels;
  if (count == 0) return;
  if (from.format != to) {
    const bool plain = from.format == Format::plain;
    const auto rows = static_cast<unsigned>(plain ? from.channels : from.pixels),
               width = static_cast<unsigned>(plain ? from.pixels : from.channels);
    const std::size_t tiles = from.columns * ((rows + tile - 1) / tile) * ((width + tile - 1) / tile);
    return launch(turn_tiles, blocks_for(tiles, 1), dim3(tile, rows_at_once), stream(), from.columns, rows, width, x, y,
                  accumulate);
  }
  if (accumulate) return launch(add_each, dim3(blocks_for(count)), dim3(threads_per_block), stream(), count, x, y);
  check(cudaMemcpyAsync(y, x, count * sizeof(float), cudaMemcpyDeviceToDevice, stream()), "copying an image");
}

}  // namespace tutti::cuda
