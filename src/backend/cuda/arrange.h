// SPDX-License-Identifier: Apache-2.0
// arrange.h -- converts operands of convolutions to what cuDNN needs (a padded frame, channels last, 16 bits) and back,
// and those of products to 16 bits. And compares results.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>

#include "tutti/image_ops.h"

namespace tutti::cuda {

// An image and the operand made from it: `pad` pixels before the image on each axis of the frame; extra channels are
// zero.
struct Arrangement {
  std::size_t columns = 0, channels = 1;
  ImageWindow::Sizes image{1, 1, 1}, frame{1, 1, 1}, pad{0, 0, 0};
  Format format = Format::plain;             // of the image
  Element image_element = Element::float32;  // one of the two types is float32, or both are the same
  bool last = false;                         // channels of the operand lie last
  std::size_t stored = 1;                    // its channels
  Element element = Element::float32;

  std::size_t image_count() const { return columns * channels * ImageWindow::product(image); }
  std::size_t count() const { return columns * stored * ImageWindow::product(frame); }
  // Whether the image can be used as the operand without a copy.
  bool is_image() const {
    return element == image_element && last == (format == Format::blocked) && stored == channels && image == frame;
  }
};
void arrange(const Arrangement&, const float* image, void* operand, cudaStream_t);
// Back, with what follows a convolution: y = [max 0] (y + bias), or added to the image. Pixels outside the image are
// cut off; pixels outside the frame are zero.
struct Behind {
  const float* bias = nullptr;
  bool relu = false, add = false;
};
void spread(const Arrangement&, const void* operand, const Behind&, float* image, cudaStream_t);

// Weights [kernel..., in, out], first index fastest, and [in, kernel..., out] with `stored` input channels.
struct WeightArrangement {
  std::size_t spatial = 1, in = 1, out = 1, stored = 1;
  bool last = false;
  Element element = Element::float32;

  std::size_t count() const { return spatial * stored * out; }
  bool is_weight() const { return element == Element::float32 && stored == in && (!last || spatial == 1); }
  auto operator<=>(const WeightArrangement&) const = default;
};
void arrange(const WeightArrangement&, const float* w, void* operand, cudaStream_t);
void spread(const WeightArrangement&, const void* operand, bool add, float* w, cudaStream_t);

// Rounds a float32 matrix for 16-bit products: copies `width` numbers of each row; rows are `step` and `to_step`
// numbers apart.
void round_rows(std::size_t rows, std::size_t width, const float* x, std::size_t step, Element element, void* to,
                std::size_t to_step, cudaStream_t);

// y = [max 0] (y + bias), per channel; bias may be null.
void add_bias(const ImageExtent&, const float* bias, bool relu, float* y, cudaStream_t);

// How far the results of two algorithms for one operation lie apart. Sums over the elements: of the absolute
// differences, and of the absolute expected values.
struct Distance {
  double apart = 0, size = 0;
};
// Waits for the device.
Distance distance(const void* expected, const void* got, std::size_t count, Element, cudaStream_t);

// Operands for trials: from -1 to 1, exact in every type, the same each time.
void put_trial_numbers(void* to, std::size_t count, Element, unsigned seed, cudaStream_t);

}  // namespace tutti::cuda
