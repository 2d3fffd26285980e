// SPDX-License-Identifier: Apache-2.0
// image_ops.h -- operations on images: convolution, pooling, normalisation over channels. Operations that need
// generated code or workspace are plans, made once per shape and number of columns.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace tutti {

// Memory layout of an image. Plain: the pixels of a channel are contiguous (W fastest), channel after channel. Blocked:
// for each pixel, channel_block() channels are contiguous, block after block. Missing channels of the last block are
// zero, in values and gradients.
enum class Format { plain, blocked };
// A channel_block() that holds all channels of an image, whatever their number (channels last, no padding).
constexpr std::size_t all_channels = ~std::size_t{0};

// Storage type of values of images and between dense layers. All operations compute in float32 and round once when they
// store. All types use float pointers: two 16-bit values share a float.
enum class Element { float32, bfloat16, float16 };
constexpr std::size_t bytes_of(Element e) { return e == Element::float32 ? 4 : 2; }
constexpr std::size_t floats_of(Element e, std::size_t count) { return (count * bytes_of(e) + 3) / 4; }
// The address of value number `count`.
inline const float* advanced(const float* p, Element e, std::size_t count) {
  return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(p) + count * bytes_of(e));
}

// A minibatch of images as operations on channels see it.
struct ImageExtent {
  std::size_t columns = 0, channels = 1, pixels = 1;
  Format format = Format::plain;
  Element element = Element::float32;
};

// The positions of a kernel, by spatial axis; axis 0 is the fastest.
struct ImageWindow {
  static constexpr std::size_t max_rank = 3;
  using Sizes = std::array<std::size_t, max_rank>;
  std::size_t rank = 1;
  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1};
  Sizes pad{0, 0, 0};  // padding before the first pixel; the padding after the last one follows from the sizes

  static std::size_t product(const Sizes& s) { return s[0] * s[1] * s[2]; }
};

struct ConvolutionShape {
  ImageWindow window;
  std::size_t columns = 0, in_channels = 1, out_channels = 1, groups = 1;
  Format in = Format::plain, out = Format::plain;
  Element in_element = Element::float32, out_element = Element::float32;
  bool bias = false, relu = false;  // y = max(0, conv + bias)
  bool winograd = true;             // may be used where it is faster
};

// Weights are stored as [kernel..., in_channels / groups, out_channels], first index fastest. `same_weights`: the
// weights are those of this plan's last call without this flag, so data derived from them are reused.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual void forward(const float* x, const float* w, const float* bias, float* y, bool accumulate,
                       bool same_weights = false) = 0;
  virtual void backward_data(const float* dy, const float* w, float* dx, bool accumulate,
                             bool same_weights = false) = 0;
  virtual void backward_weights(const float* x, const float* dy, float* dw, bool accumulate) = 0;
};

enum class PoolingOp { max, average };

struct PoolingShape {
  PoolingOp op = PoolingOp::max;
  ImageWindow window;
  std::size_t columns = 0, channels = 1;
  Format format = Format::plain;       // of both sides
  Element element = Element::float32;  // of both sides
  bool include_padding = false;        // average pooling divides by the size of the window
};

// Max pooling stores in `work` which pixel won: one byte per stored value of y if windows have fewer than 255 pixels,
// else as much as y. Average pooling divides by the number of pixels inside the image, unless
// include_padding is set.
class PoolingPlan {
 public:
  virtual ~PoolingPlan() = default;
  virtual void forward(const float* x, float* y, float* work) = 0;
  virtual void backward(const float* dy, const float* work, float* dx, bool accumulate) = 0;
};

// Changes from step to step, so kernels read it from device memory: replayed calls then use the values of the current
// step.
struct NormalizationWeights {
  double running = 0;  // share of the running statistics in the statistics used
  double update = 0;   // weight of these columns in the running statistics
};

// Sums over ranks, for operations that all ranks compute together. Every rank must make the call, even without columns.
class SumOverRanks {
 public:
  virtual ~SumOverRanks() = default;
  // Replaces `sums` (host memory, `count` values per channel) with the sums over all ranks. Returns the total count.
  virtual double sum(std::span<double> sums, double count) = 0;
};

// y = [max 0] scale * (x - mean) / sqrt(variance + epsilon) + bias [+ added], per channel.
struct BatchNormalization {
  ImageExtent extent;
  double epsilon = 1e-5;
  const NormalizationWeights* weights =
      nullptr;  // training, with statistics of these columns; null: use the running ones
  bool relu = false, add = false;
  SumOverRanks* ranks = nullptr;  // training: statistics over the columns of all ranks; waits for the device
};
struct NormalizationParameters {
  const float *scale = nullptr, *bias = nullptr;
  float *mean = nullptr, *variance = nullptr;  // running
};
struct NormalizationGradients {
  float *x = nullptr, *added = nullptr, *scale = nullptr, *bias = nullptr;  // null = not wanted; added may be dy
  bool add_x = false, add_added = false, add_scale = false, add_bias = false;
};

// x / (bias + alpha * sum of squares over channels within `radius`)^beta
struct ResponseNormalization {
  ImageExtent extent;
  std::size_t radius = 0;
  double bias = 1, alpha = 1, beta = 0.75;
};

// Max pooling of regions (ROI pooling). The image is [width, height, channels]; regions are [4, number]: x, y, width,
// height as fractions of the image, or with `scale` x1, y1, x2, y2, the first and the last pixel of the original image,
// which is 1 / scale times as large. The result is [out_width, out_height, channels, number]. `work` is as large as the
// result.
struct RegionPooling {
  std::size_t columns = 0, width = 1, height = 1, channels = 1, regions = 1, out_width = 1, out_height = 1;
  double scale = 0;  // 0: regions are fractions of the image
};

class ImageOps {
 public:
  virtual ~ImageOps() = default;
  virtual std::size_t channel_block() const = 0;
  // The storage type of blocked images between operations. Plain images and per-channel values are always float32. Only
  // operations that take an Element accept 16-bit images, and only blocked ones.
  virtual Element element() const { return Element::float32; }
  // Copies an image to another layout or type.
  virtual void reorder(const ImageExtent& from, const ImageExtent& to, const float* x, float* y, bool accumulate) = 0;

  virtual std::unique_ptr<ConvolutionPlan> plan_convolution(const ConvolutionShape&) = 0;
  virtual std::unique_ptr<PoolingPlan> plan_pooling(const PoolingShape&) = 0;
  // Gradient of bias and ReLU: zeroes dy where y is 0 (y null: no ReLU) and sums it into dbias (may be null).
  virtual void bias_relu_gradient(const ImageExtent&, const float* y, float* dy, float* dbias, bool accumulate) = 0;

  // `work` has 4 floats per stored channel and must live until the gradient.
  virtual void normalize(const BatchNormalization&, const NormalizationParameters&, const float* x, const float* added,
                         float* y, float* work) = 0;
  // May overwrite dy.
  virtual void normalize_gradient(const BatchNormalization&, const NormalizationParameters&, const float* x,
                                  const float* y, float* dy, const float* work, const NormalizationGradients&) = 0;
  // `work` has one float per value of x.
  virtual void respond(const ResponseNormalization&, const float* x, float* y, float* work) = 0;
  virtual void respond_gradient(const ResponseNormalization&, const float* x, const float* y, const float* dy,
                                const float* work, float* dx, bool accumulate) = 0;

  // Max unpooling: writes the values of the small image to the maxima of the windows of the large one. The gradient
  // goes the other way.
  virtual void unpool(const PoolingShape&, const float* values, const float* image, float* y) = 0;
  virtual void unpool_gradient(const PoolingShape&, const float* image, const float* dy, float* dvalues,
                               bool accumulate) = 0;

  virtual void pool_regions(const RegionPooling&, const float* image, const float* regions, float* y, float* work) = 0;
  virtual void pool_regions_gradient(const RegionPooling&, const float* dy, const float* work, float* dimage,
                                     bool accumulate) = 0;
};

}  // namespace tutti
