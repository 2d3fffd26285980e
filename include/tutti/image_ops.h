// SPDX-License-Identifier: Apache-2.0
// image_ops.h -- the part of a backend that works on images: convolution, pooling, normalisation over channels.
// What needs generated code or workspace is a plan, made once per shape and number of columns.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace tutti {

// How the values of an image lie in memory. Plain: pixels of a channel side by side (W fastest), channel after channel.
// Blocked: for each pixel channel_block() channels side by side, block after block; missing channels of the last block
// are zeros, in values and gradients.
enum class Format { plain, blocked };
// The channel_block() that takes all channels of an image, whatever their number: channels last, nothing is missing.
constexpr std::size_t all_channels = ~std::size_t{0};

// What values of images and between dense layers are stored as; all is computed in float32, rounded once when written.
// A pointer to floats stands for all of them: numbers of 16 bits lie there two to a float.
enum class Element { float32, bfloat16, float16 };
constexpr std::size_t bytes_of(Element e) { return e == Element::float32 ? 4 : 2; }
constexpr std::size_t floats_of(Element e, std::size_t count) { return (count * bytes_of(e) + 3) / 4; }
// Where number `count` stands.
inline const float* advanced(const float* p, Element e, std::size_t count) {
  return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(p) + count * bytes_of(e));
}

// Columns of images as operations on channels see them.
struct ImageExtent {
  std::size_t columns = 0, channels = 1, pixels = 1;
  Format format = Format::plain;
  Element element = Element::float32;
};

// Where a kernel goes, by spatial axis; axis 0 is the fastest.
struct ImageWindow {
  static constexpr std::size_t max_rank = 3;
  using Sizes = std::array<std::size_t, max_rank>;
  std::size_t rank = 1;
  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1};
  Sizes pad{0, 0, 0};  // cells before the first one; behind the last one follows from the sizes

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

// Weights lie as [kernel..., in_channels / groups, out_channels], first index fastest. With `same_weights` they are
// those that this plan was given last without it: what has been made of them may be used again.
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
};

// Max pooling keeps in `work` which cell won: a byte for each stored value of y where windows have fewer than 255
// cells, else as much as y. The average divides by the real cells under the window.
class PoolingPlan {
 public:
  virtual ~PoolingPlan() = default;
  virtual void forward(const float* x, float* y, float* work) = 0;
  virtual void backward(const float* dy, const float* work, float* dx, bool accumulate) = 0;
};

// Changes from step to step, so it lies in memory of the backend: calls that are repeated find that of their step.
struct NormalizationWeights {
  double running = 0;  // share of the running statistics in those that normalise
  double update = 0;   // weight of these columns in the running statistics
};

// Sums of an operation that all ranks work on together. Every rank makes the call, also one without columns.
class SumOverRanks {
 public:
  virtual ~SumOverRanks() = default;
  // Replaces `sums` (on the host, of `count` values per channel) by the sums over all ranks; returns the total count.
  virtual double sum(std::span<double> sums, double count) = 0;
};

// y = [max 0] scale * (x - mean) / sqrt(variance + epsilon) + bias [+ added], per channel.
struct BatchNormalization {
  ImageExtent extent;
  double epsilon = 1e-5;
  const NormalizationWeights* weights = nullptr;  // training, on statistics of these columns; null: on the running ones
  bool relu = false, add = false;
  SumOverRanks* ranks = nullptr;  // training: statistics are those of the columns of all ranks; waits for the device
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

// Max pooling of regions: the image [width, height, channels], regions [4, number] as x, y, width, height relative to
// the image, the result [out_width, out_height, channels, number]. `work` is as large as the result.
struct RegionPooling {
  std::size_t columns = 0, width = 1, height = 1, channels = 1, regions = 1, out_width = 1, out_height = 1;
};

class ImageOps {
 public:
  virtual ~ImageOps() = default;
  virtual std::size_t channel_block() const = 0;
  // What images in blocks of channels may be stored as from operation to operation; plain ones, and all numbers of a
  // channel, are float32. Those of 16 bits are known to the operations that are told their type, in blocks only.
  virtual Element element() const { return Element::float32; }
  // The same image in another format or type.
  virtual void reorder(const ImageExtent& from, const ImageExtent& to, const float* x, float* y, bool accumulate) = 0;

  virtual std::unique_ptr<ConvolutionPlan> plan_convolution(const ConvolutionShape&) = 0;
  virtual std::unique_ptr<PoolingPlan> plan_pooling(const PoolingShape&) = 0;
  // Back through bias and ReLU: dy is masked where y is 0 (y may be null: no ReLU), dbias (may be null) its sum.
  virtual void bias_relu_gradient(const ImageExtent&, const float* y, float* dy, float* dbias, bool accumulate) = 0;

  // `work` has 4 floats per stored channel and lives until the gradient.
  virtual void normalize(const BatchNormalization&, const NormalizationParameters&, const float* x, const float* added,
                         float* y, float* work) = 0;
  // dy may be overwritten.
  virtual void normalize_gradient(const BatchNormalization&, const NormalizationParameters&, const float* x,
                                  const float* y, float* dy, const float* work, const NormalizationGradients&) = 0;
  // `work` has a float for each value of x.
  virtual void respond(const ResponseNormalization&, const float* x, float* y, float* work) = 0;
  virtual void respond_gradient(const ResponseNormalization&, const float* x, const float* y, const float* dy,
                                const float* work, float* dx, bool accumulate) = 0;

  // Unpooling: values of the small image go where the maxima of the large one's windows are; and back.
  virtual void unpool(const PoolingShape&, const float* values, const float* image, float* y) = 0;
  virtual void unpool_gradient(const PoolingShape&, const float* image, const float* dy, float* dvalues,
                               bool accumulate) = 0;

  virtual void pool_regions(const RegionPooling&, const float* image, const float* regions, float* y, float* work) = 0;
  virtual void pool_regions_gradient(const RegionPooling&, const float* dy, const float* work, float* dimage,
                                     bool accumulate) = 0;
};

}  // namespace tutti
