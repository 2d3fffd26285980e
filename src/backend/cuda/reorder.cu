// SPDX-License-Identifier: Apache-2.0
// Between the formats of images: there is one here, so values are copied or added.
#include <cassert>

#include "backend/cuda/images.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

__global__ void add_each(std::size_t count, const float* x, float* y) {
  for (std::size_t e = first_element(); e < count; e += element_step()) y[e] += x[e];
}

}  // namespace

void CudaImages::reorder(const ImageExtent& from, Format to, const float* x, float* y, bool accumulate) {
  assert(from.format == Format::plain && to == Format::plain);
  const std::size_t count = from.columns * from.channels * from.pixels;
  if (count == 0) return;
  if (accumulate) return launch(add_each, dim3(blocks_for(count)), dim3(threads_per_block), stream(), count, x, y);
  check(cudaMemcpyAsync(y, x, count * sizeof(float), cudaMemcpyDeviceToDevice, stream()), "copying an image");
}

}  // namespace tutti::cuda
