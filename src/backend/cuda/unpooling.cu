// SPDX-License-Identifier: Apache-2.0
// Unpooling and the pooling of regions: rare, written plainly. Where windows share a maximum, the last value stands
// there and alone has a gradient.
#include "backend/cuda/images.h"
#include "backend/cuda/windows.h"

namespace tutti::cuda {
namespace {

// Where the largest value under a window lies; the first one of equals.
__device__ std::size_t largest(const ImageWindow& w, const float* image, const Place& window) {
  const Cells under(w, window);
  std::size_t best = offset(under.begin, w.in);
  under.each([&](const Place& at) {
    if (image[offset(at, w.in)] > image[best]) best = offset(at, w.in);
  });
  return best;
}

// Whether a later window has its maximum at the same place.
__device__ bool covered(const ImageWindow& w, const float* image, std::size_t window, std::size_t at) {
  bool found = false;
  WindowsOver(w, place_of(at, w.in)).each([&](const Place& other) {
    if (!found && offset(other, w.out) > window) found = largest(w, image, other) == at;
  });
  return found;
}

__global__ void unpool_each(ImageWindow w, std::size_t planes, const float* values, const float* image, float* y) {
  const std::size_t small = cells(w.out), large = cells(w.in), count = planes * small;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t plane = e / small * large, window = e % small;
    const std::size_t at = largest(w, image + plane, place_of(window, w.out));
    if (!covered(w, image + plane, window, at)) y[plane + at] = values[e];
  }
}

__global__ void unpool_each_back(ImageWindow w, std::size_t planes, const float* image, const float* dy, float* dvalues,
                                 bool add) {
  const std::size_t small = cells(w.out), large = cells(w.in), count = planes * small;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t plane = e / small * large, window = e % small;
    const std::size_t at = largest(w, image + plane, place_of(window, w.out));
    const float d = covered(w, image + plane, window, at) ? 0.0f : dy[plane + at];
    dvalues[e] = add ? dvalues[e] + d : d;
  }
}

// The cells of a region that bin `bin` of `bins` covers.
struct Span {
  std::size_t begin, end;
};
__device__ Span bin_of(float first, float length, std::size_t size, std::size_t bin, std::size_t bins) {
  const auto most = static_cast<float>(size);
  const float start = roundf(first * most), wide = fmaxf(1.0f, roundf(length * most));
  const float step = wide / static_cast<float>(bins);
  const auto inside = [&](float v) { return static_cast<std::size_t>(v < 0.0f ? 0.0f : v > most ? most : v); };
  return {inside(floorf(start + static_cast<float>(bin) * step)),
          inside(ceilf(start + static_cast<float>(bin + 1) * step))};
}

__global__ void pool_each_region(RegionPooling s, const float* image, const float* regions, float* y, float* work) {
  const std::size_t plane = s.width * s.height, bins = s.out_width * s.out_height;
  const std::size_t count = s.columns * s.regions * s.channels * bins;
  for (std::size_t e = first_element(); e < count; e += element_step()) {
    const std::size_t bin = e % bins, c = e / bins % s.channels, i = e / (bins * s.channels);
    const float* region = regions + i * 4;
    const Span across = bin_of(region[0], region[2], s.width, bin % s.out_width, s.out_width);
    const Span down = bin_of(region[1], region[3], s.height, bin / s.out_width, s.out_height);
    const float* x = image + (i / s.regions * s.channels + c) * plane;
    std::size_t best = plane;
    for (std::size_t h = down.begin; h < down.end; ++h)
      for (std::size_t w = across.begin; w < across.end; ++w)
        if (best == plane || x[h * s.width + w] > x[best]) best = h * s.width + w;
    y[e] = best == plane ? 0.0f : x[best];
    work[e] = best == plane ? -1.0f : static_cast<float>(best);
  }
}

// A thread for each channel: regions may overlap, and the order of their sums is fixed.
__global__ void pool_each_region_back(RegionPooling s, const float* dy, const float* work, float* dimage) {
  const std::size_t plane = s.width * s.height, bins = s.out_width * s.out_height;
  for (std::size_t i = first_element(); i < s.columns * s.channels; i += element_step()) {
    float* dx = dimage + i * plane;
    const std::size_t column = i / s.channels, c = i % s.channels;
    for (std::size_t r = 0; r < s.regions; ++r)
      for (std::size_t bin = 0; bin < bins; ++bin) {
        const std::size_t source = ((column * s.regions + r) * s.channels + c) * bins + bin;
        if (work[source] >= 0) dx[static_cast<std::size_t>(work[source])] += dy[source];
      }
  }
}

}  // namespace

void CudaImages::unpool(const PoolingShape& s, const float* values, const float* image, float* y) {
  const std::size_t planes = s.columns * s.channels;
  if (planes == 0) return;
  check(cudaMemsetAsync(y, 0, planes * cells(s.window.in) * sizeof(float), stream()), "unpooling");
  launch(unpool_each, dim3(blocks_for(planes * cells(s.window.out))), dim3(threads_per_block), stream(), s.window,
         planes, values, image, y);
}

void CudaImages::unpool_gradient(const PoolingShape& s, const float* image, const float* dy, float* dvalues,
                                 bool accumulate) {
  const std::size_t planes = s.columns * s.channels;
  if (planes == 0) return;
  launch(unpool_each_back, dim3(blocks_for(planes * cells(s.window.out))), dim3(threads_per_block), stream(), s.window,
         planes, image, dy, dvalues, accumulate);
}

void CudaImages::pool_regions(const RegionPooling& s, const float* image, const float* regions, float* y, float* work) {
  const std::size_t count = s.columns * s.regions * s.channels * s.out_width * s.out_height;
  if (count > 0)
    launch(pool_each_region, dim3(blocks_for(count)), dim3(threads_per_block), stream(), s, image, regions, y, work);
}

void CudaImages::pool_regions_gradient(const RegionPooling& s, const float* dy, const float* work, float* dimage,
                                       bool accumulate) {
  const std::size_t planes = s.columns * s.channels;
  if (planes == 0) return;
  if (!accumulate)
    check(cudaMemsetAsync(dimage, 0, planes * s.width * s.height * sizeof(float), stream()), "pooling regions");
  launch(pool_each_region_back, dim3(blocks_for(planes)), dim3(threads_per_block), stream(), s, dy, work, dimage);
}

}  // namespace tutti::cuda
