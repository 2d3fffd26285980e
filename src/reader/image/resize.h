// SPDX-License-Identifier: Apache-2.0
// resize.h -- images brought to another size by interpolation between source pixels, without smoothing first: the rules
// of OpenCV's resize, which the original uses. Pixel centers lie at half numbers; beyond the edge the edge is repeated.
#pragma once

#include <vector>

#include "reader/image/image.h"

namespace tutti::reader {

enum class Interpolation { nearest, linear, cubic, lanczos };

// Bytes stay bytes (rounded), floats stay floats. Not for use by two threads at once.
class Resizer {
 public:
  Image operator()(const Image& from, std::int64_t width, std::int64_t height, Interpolation, Scratch&);

  // Which source pixels make up each target pixel of one axis, and how much they count.
  struct Axis {
    std::int64_t from = 0, to = 0;
    Interpolation interpolation = Interpolation::nearest;
    std::size_t taps = 0;
    std::vector<std::int32_t> index;  // taps per target pixel
    std::vector<float> weight;
    std::vector<std::int32_t> fixed;  // the weights in 1/2048
    void plan(std::int64_t from, std::int64_t to, Interpolation);
  };

 private:
  template <class T, class A>
  void run(const Image& from, T* to);
  template <class T, class A>
  void widen(const T* row, A* to, std::size_t channels) const;

  Axis x_, y_;
  Buffer<float> float_rows_;
  Buffer<std::int32_t> fixed_rows_;
  std::vector<std::int64_t> held_;  // which source row each kept row is
};

}  // namespace tutti::reader
