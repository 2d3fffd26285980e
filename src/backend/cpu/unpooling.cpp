// SPDX-License-Identifier: Apache-2.0
// Unpooling and pooling of regions: rare operations, in plain layout, without optimisation.
#include <algorithm>
#include <cmath>

#include "backend/cpu/images.h"
#include "backend/cpu/parallel.h"

namespace tutti::cpu {
namespace {

using Place = ImageWindow::Sizes;

std::size_t offset(const Place& at, const ImageWindow::Sizes& sizes) {
  return (at[2] * sizes[1] + at[1]) * sizes[0] + at[0];
}
Place place_of(std::size_t index, const ImageWindow::Sizes& sizes) {
  return {index % sizes[0], index / sizes[0] % sizes[1], index / (sizes[0] * sizes[1])};
}

// The position of the maximum in window `index`; the first one of equal maxima.
std::size_t largest(const ImageWindow& w, const float* image, std::size_t index) {
  const Place window = place_of(index, w.out);
  Place begin, end;
  for (std::size_t axis = 0; axis < ImageWindow::max_rank; ++axis) {
    const std::size_t first = window[axis] * w.stride[axis];
    begin[axis] = first > w.pad[axis] ? first - w.pad[axis] : 0;
    end[axis] = std::min(first + w.kernel[axis] - w.pad[axis], w.in[axis]);
  }
  std::size_t best = offset(begin, w.in);
  Place at = begin;
  for (at[2] = begin[2]; at[2] < end[2]; ++at[2])
    for (at[1] = begin[1]; at[1] < end[1]; ++at[1])
      for (at[0] = begin[0]; at[0] < end[0]; ++at[0])
        if (image[offset(at, w.in)] > image[best]) best = offset(at, w.in);
  return best;
}

// Calls f(values of a channel, image of the channel) for each channel of each column.
template <class F>
void each_channel(const PoolingShape& s, const F& f) {
  const std::size_t small = ImageWindow::product(s.window.out), large = ImageWindow::product(s.window.in);
  parallel(s.columns * s.channels, 1, large, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) f(i * small, i * large, small, large);
  });
}

// The pixels of a region that bin `bin` of `bins` covers. `second` is the length of the region, with `scale` its last
// pixel.
struct Span {
  std::size_t begin, end;
};
Span bin_of(double scale, float first, float second, std::size_t size, std::size_t bin, std::size_t bins) {
  const auto cells = static_cast<float>(size);
  const auto whole = [&](float v) {
    return scale > 0 ? static_cast<float>(std::round(static_cast<double>(v) * scale)) : std::round(v * cells);
  };
  const float start = whole(first), wide = std::max(1.0f, scale > 0 ? whole(second) - start + 1 : whole(second));
  const float step = wide / static_cast<float>(bins);
  const auto inside = [&](float v) { return static_cast<std::size_t>(std::clamp(v, 0.0f, cells)); };
  return {inside(std::floor(start + static_cast<float>(bin) * step)),
          inside(std::ceil(start + static_cast<float>(bin + 1) * step))};
}

}  // namespace

void CpuImages::unpool(const PoolingShape& s, const float* values, const float* image, float* y) {
  each_channel(s, [&](std::size_t from, std::size_t to, std::size_t small, std::size_t large) {
    std::fill_n(y + to, large, 0.0f);
    for (std::size_t i = 0; i < small; ++i) y[to + largest(s.window, image + to, i)] = values[from + i];
  });
}

// If windows share a maximum, the last value is stored, and only it has a gradient.
void CpuImages::unpool_gradient(const PoolingShape& s, const float* image, const float* dy, float* dvalues,
                                bool accumulate) {
  each_channel(s, [&](std::size_t from, std::size_t to, std::size_t small, std::size_t) {
    for (std::size_t i = 0; i < small; ++i) {
      const std::size_t at = largest(s.window, image + to, i);
      bool covered = false;
      for (std::size_t later = i + 1; later < small && !covered; ++later)
        covered = largest(s.window, image + to, later) == at;
      float& target = dvalues[from + i];
      target = (accumulate ? target : 0.0f) + (covered ? 0.0f : dy[to + at]);
    }
  });
}

void CpuImages::pool_regions(const RegionPooling& s, const float* image, const float* regions, float* y, float* work) {
  const std::size_t plane = s.width * s.height, bins = s.out_width * s.out_height;
  parallel(s.columns * s.regions, 1, s.channels * bins, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float* region = regions + i * 4;
      const std::size_t column = i / s.regions;
      for (std::size_t bin = 0; bin < bins; ++bin) {
        const Span across = bin_of(s.scale, region[0], region[2], s.width, bin % s.out_width, s.out_width);
        const Span down = bin_of(s.scale, region[1], region[3], s.height, bin / s.out_width, s.out_height);
        for (std::size_t c = 0; c < s.channels; ++c) {
          const float* x = image + (column * s.channels + c) * plane;
          const std::size_t target = (i * s.channels + c) * bins + bin;
          std::size_t best = plane;
          for (std::size_t h = down.begin; h < down.end; ++h)
            for (std::size_t w = across.begin; w < across.end; ++w)
              if (best == plane || x[h * s.width + w] > x[best]) best = h * s.width + w;
          y[target] = best == plane ? 0.0f : x[best];
          work[target] = best == plane ? -1.0f : static_cast<float>(best);
        }
      }
    }
  });
}

void CpuImages::pool_regions_gradient(const RegionPooling& s, const float* dy, const float* work, float* dimage,
                                      bool accumulate) {
  const std::size_t plane = s.width * s.height, bins = s.out_width * s.out_height;
  parallel(s.columns * s.channels, 1, s.regions * bins, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float* dx = dimage + i * plane;
      if (!accumulate) std::fill_n(dx, plane, 0.0f);
      const std::size_t column = i / s.channels, c = i % s.channels;
      for (std::size_t r = 0; r < s.regions; ++r)
        for (std::size_t bin = 0; bin < bins; ++bin) {
          const std::size_t source = ((column * s.regions + r) * s.channels + c) * bins + bin;
          if (work[source] >= 0) dx[static_cast<std::size_t>(work[source])] += dy[source];
        }
    }
  });
}

}  // namespace tutti::cpu
