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
  with_type(from, [&]<class T>(T) {
    for (std::size_t y = 0; y < height; ++y) std::copy_n(from.row<T>(y), row, to + y * row);
  });
  return to;
}

float between(double radius, CounterRandom& random) {
  return static_cast<float>(radius * (2 * random.uniform_double() - 1));
}

// Hue and the brightest channel stay; saturation is how far the other channels are from the brightest.
void saturate(float* p, std::size_t n, float ratio) {
  for (float* const end = p + n; p < end; p += 3) {
    const float high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]});
    if (high <= low || high <= 0) continue;
    const float saturation = (high - low) / high;
    const float factor = std::min(saturation * ratio, 1.0f) / saturation;
    for (int c = 0; c < 3; ++c) p[c] = high - (high - p[c]) * factor;
  }
}

Image change_color(const ColorSettings& s, const Image& from, Work& work) {
  float* const values = float_copy(from, work.scratch);
  const auto n = static_cast<std::size_t>(from.size.numbers());
  if (s.brightness > 0 || s.contrast > 0) {
    float shift = 0, factor = 1;
    if (s.brightness > 0) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += values[i];
      shift = between(s.brightness, work.random) * static_cast<float>(sum / static_cast<double>(n));
    }
    if (s.contrast > 0) factor = 1 + between(s.contrast, work.random);
    for (std::size_t i = 0; i < n; ++i) values[i] = std::clamp(values[i] * factor + shift, 0.0f, 255.0f);
  }
  if (s.saturation > 0 && from.size.channels == 3) saturate(values, n, 1 + between(s.saturation, work.random));
  return packed_image(from.size, values);
}

float normal(CounterRandom& random) {
  const double u = 1 - random.uniform_double(), v = random.uniform_double();
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
}

Image change_light(float deviation, const std::array<float, 3>& colors, const std::array<float, 9>& vectors,
                   const Image& from, Work& work) {
  float alpha[3], shift[3];
  for (int i = 0; i < 3; ++i) alpha[i] = deviation * normal(work.random) * colors[static_cast<std::size_t>(i)];
  for (std::size_t i = 0; i < 3; ++i)
    shift[i] = vectors[3 * i] * alpha[0] + vectors[3 * i + 1] * alpha[1] + vectors[3 * i + 2] * alpha[2];
  float* const values = float_copy(from, work.scratch);
  const auto n = static_cast<std::size_t>(from.size.numbers()), channels = static_cast<std::size_t>(from.size.channels);
  for (std::size_t i = 0; i < n; i += channels)
    for (std::size_t c = 0; c < channels; ++c)
      values[i + c] = std::clamp(values[i + c] + shift[channels - 1 - c], 0.0f, 255.0f);
  return packed_image(from.size, values);
}

Image subtract_mean(ImageSize size, const std::vector<float>& mean, const Image& from, Work& work) {
  if (from.size != size)
    throw BadImage(fmt::format("the image is {} x {} x {} where the mean image, {} x {} x {}, is subtracted",
                               from.size.width, from.size.height, from.size.channels, size.width, size.height,
                               size.channels));
  const std::size_t row = from.row_numbers();
  float* const to = work.scratch.next<float>(mean.size());
  with_type(from, [&]<class T>(T) {
    for (std::size_t y = 0; y < static_cast<std::size_t>(size.height); ++y) {
      const T* const pixels = from.row<T>(y);
      const float* const means = mean.data() + y * row;
      float* const out = to + y * row;
      for (std::size_t i = 0; i < row; ++i) out[i] = static_cast<float>(pixels[i]) - means[i];
    }
  });
  return packed_image(size, to);
}

}  // namespace

Transform make_color(const ColorSettings& s) { return std::bind_front(change_color, s); }
Transform make_intensity(double deviation, const std::array<float, 3>& values, const std::array<float, 9>& vectors) {
  return std::bind_front(change_light, static_cast<float>(deviation), values, vectors);
}
Transform make_mean(ImageSize size, std::vector<float> mean) {
  return std::bind_front(subtract_mean, size, std::move(mean));
}

}  // namespace tutti::reader
