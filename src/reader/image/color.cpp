// SPDX-License-Identifier: Apache-2.0
// Transforms that change pixels one by one: colour, intensity (light of another colour, as AlexNet was trained), mean.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reader/image/decoder.h"
#include "reader/image/transform.h"

namespace tutti::reader {
namespace {

// A copy of the image as floats, without gaps between rows, to be changed in place.
float* float_copy(const Image& from, Scratch& scratch) {
  const std::size_t row = from.row_numbers(), height = static_cast<std::size_t>(from.size.height);
  float* const to = scratch.next<float>(row * height);
  for (std::size_t y = 0; y < height; ++y)
    if (from.bytes) {
      std::copy_n(from.row<std::uint8_t>(y), row, to + y * row);
    } else {
      std::copy_n(from.row<float>(y), row, to + y * row);
    }
  return to;
}

Image image_of(const float* values, ImageSize size) {
  Image image{size};
  image.stride = image.row_numbers();
  image.floats = values;
  return image;
}

float between(double radius, CounterRandom& random) {
  return static_cast<float>(radius * (2 * random.uniform_double() - 1));
}

class Color final : public Transform {
 public:
  explicit Color(const ColorSettings& s) : s_(s) {}

  Image apply(const Image& from, Work& work) const override {
    float* const values = float_copy(from, work.scratch);
    const auto n = static_cast<std::size_t>(from.size.numbers());
    if (s_.brightness > 0 || s_.contrast > 0) {
      float shift = 0, factor = 1;
      if (s_.brightness > 0) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += values[i];
        shift = between(s_.brightness, work.random) * static_cast<float>(sum / static_cast<double>(n));
      }
      if (s_.contrast > 0) factor = 1 + between(s_.contrast, work.random);
      for (std::size_t i = 0; i < n; ++i) values[i] = std::clamp(values[i] * factor + shift, 0.0f, 255.0f);
    }
    if (s_.saturation > 0 && from.size.channels == 3) saturate(values, n, 1 + between(s_.saturation, work.random));
    return image_of(values, from.size);
  }

 private:
  // Hue and the brightest channel stay; saturation is how far the other channels are from the brightest.
  static void saturate(float* p, std::size_t n, float ratio) {
    for (float* const end = p + n; p < end; p += 3) {
      const float high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]});
      if (high <= low || high <= 0) continue;
      const float saturation = (high - low) / high;
      const float factor = std::min(saturation * ratio, 1.0f) / saturation;
      for (int c = 0; c < 3; ++c) p[c] = high - (high - p[c]) * factor;
    }
  }

  ColorSettings s_;
};

class Intensity final : public Transform {
 public:
  Intensity(double deviation, const std::array<float, 3>& values, const std::array<float, 9>& vectors)
      : deviation_(static_cast<float>(deviation)), values_(values), vectors_(vectors) {}

  Image apply(const Image& from, Work& work) const override {
    float alpha[3], shift[3];
    for (int i = 0; i < 3; ++i) alpha[i] = deviation_ * normal(work.random) * values_[static_cast<std::size_t>(i)];
    for (std::size_t i = 0; i < 3; ++i)
      shift[i] = vectors_[3 * i] * alpha[0] + vectors_[3 * i + 1] * alpha[1] + vectors_[3 * i + 2] * alpha[2];
    float* const values = float_copy(from, work.scratch);
    const auto n = static_cast<std::size_t>(from.size.numbers()),
               channels = static_cast<std::size_t>(from.size.channels);
    for (std::size_t i = 0; i < n; i += channels)
      for (std::size_t c = 0; c < channels; ++c)
        values[i + c] = std::clamp(values[i + c] + shift[channels - 1 - c], 0.0f, 255.0f);
    return image_of(values, from.size);
  }

 private:
  static float normal(CounterRandom& random) {
    const double u = 1 - random.uniform_double(), v = random.uniform_double();
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
  }

  float deviation_;
  std::array<float, 3> values_;
  std::array<float, 9> vectors_;
};

class Mean final : public Transform {
 public:
  Mean(ImageSize size, std::vector<float> mean) : size_(size), mean_(std::move(mean)) {}

  Image apply(const Image& from, Work& work) const override {
    if (from.size != size_)
      throw BadImage(fmt::format("the image is {} x {} x {} where the mean image, {} x {} x {}, is subtracted",
                                 from.size.width, from.size.height, from.size.channels, size_.width, size_.height,
                                 size_.channels));
    const std::size_t row = from.row_numbers();
    float* const to = work.scratch.next<float>(mean_.size());
    for (std::size_t y = 0; y < static_cast<std::size_t>(size_.height); ++y)
      if (from.bytes) {
        subtract(from.row<std::uint8_t>(y), mean_.data() + y * row, to + y * row, row);
      } else {
        subtract(from.row<float>(y), mean_.data() + y * row, to + y * row, row);
      }
    return image_of(to, size_);
  }

 private:
  template <class T>
  static void subtract(const T* from, const float* mean, float* to, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) - mean[i];
  }

  ImageSize size_;
  std::vector<float> mean_;
};

}  // namespace

std::unique_ptr<const Transform> make_color(const ColorSettings& s) { return std::make_unique<Color>(s); }
std::unique_ptr<const Transform> make_intensity(double deviation, const std::array<float, 3>& values,
                                                const std::array<float, 9>& vectors) {
  return std::make_unique<Intensity>(deviation, values, vectors);
}
std::unique_ptr<const Transform> make_mean(ImageSize size, std::vector<float> mean) {
  return std::make_unique<Mean>(size, std::move(mean));
}

}  // namespace tutti::reader
