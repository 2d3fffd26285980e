// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/frames.h"

#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

__global__ void put_each(Frame f, const float* image, float* framed) {
  const std::size_t of_plane = cells(f.framed), count = f.planes * of_plane;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t plane = e / of_plane, cell = e % of_plane;
    const std::size_t x = cell % f.framed[0], y = cell / f.framed[0] % f.framed[1],
                      z = cell / (f.framed[0] * f.framed[1]);
    // Before the image these differences wrap around and are too large, too.
    const std::size_t i = x - f.pad[0], j = y - f.pad[1], k = z - f.pad[2];
    const bool inside = i < f.image[0] && j < f.image[1] && k < f.image[2];
    framed[e] = inside ? image[plane * cells(f.image) + (k * f.image[1] + j) * f.image[0] + i] : 0.0f;
  }
}

__global__ void take_each(Frame f, const float* framed, float* image, bool add) {
  const std::size_t of_plane = cells(f.image), count = f.planes * of_plane;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t plane = e / of_plane, cell = e % of_plane;
    const std::size_t x = cell % f.image[0] + f.pad[0], y = cell / f.image[0] % f.image[1] + f.pad[1],
                      z = cell / (f.image[0] * f.image[1]) + f.pad[2];
    const bool inside = x < f.framed[0] && y < f.framed[1] && z < f.framed[2];
    const float v = inside ? framed[plane * cells(f.framed) + (z * f.framed[1] + y) * f.framed[0] + x] : 0.0f;
    image[e] = add ? image[e] + v : v;
  }
}

__global__ void add_bias_each(unsigned count, unsigned channels, unsigned pixels, const float* bias, bool relu,
                              float* y) {
  for (unsigned e = first_element32(); e < count; e += element_step32()) {
    const float v = y[e] + (bias ? bias[e / pixels % channels] : 0.0f);
    y[e] = relu && v < 0.0f ? 0.0f : v;
  }
}

}  // namespace

void put_into_frame(const Frame& f, const float* image, float* framed, cudaStream_t stream) {
  launch(put_each, dim3(blocks_for(f.framed_cells())), dim3(threads_per_block), stream, f, image, framed);
}

void take_from_frame(const Frame& f, const float* framed, float* image, bool add, cudaStream_t stream) {
  launch(take_each, dim3(blocks_for(f.image_cells())), dim3(threads_per_block), stream, f, framed, image, add);
}

void add_bias(const ImageExtent& e, const float* bias, bool relu, float* y, cudaStream_t stream) {
  const unsigned count = in_32_bits(e.columns * e.channels * e.pixels);
  launch(add_bias_each, dim3(blocks_for(count)), dim3(threads_per_block), stream, count, e.channels, e.pixels, bias,
         relu, y);
}

}  // namespace tutti::cuda
