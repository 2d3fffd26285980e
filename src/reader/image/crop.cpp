// SPDX-License-Identifier: Apache-2.0
// Crop cuts a rectangle out, by size or by ratio, and may mirror it. Scale brings it to the size of the network's
// input.
#include <algorithm>
#include <cmath>

#include "reader/image/decoder.h"
#include "reader/image/transform.h"

namespace tutti::reader {
namespace {

template <class T>
Image cut(const Image& from, std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height) {
  Image image = from;
  image.size.width = width;
  image.size.height = height;
  const std::size_t first =
      static_cast<std::size_t>(y) * from.stride + static_cast<std::size_t>(x * from.size.channels);
  if constexpr (sizeof(T) == 1) {
    image.bytes += first;
  } else {
    image.floats += first;
  }
  return image;
}

Image cut_out(const Image& from, std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height) {
  return from.bytes ? cut<std::uint8_t>(from, x, y, width, height) : cut<float>(from, x, y, width, height);
}

template <class T>
const T* mirror(const Image& from, Scratch& scratch) {
  const auto width = static_cast<std::size_t>(from.size.width), channels = static_cast<std::size_t>(from.size.channels);
  const auto height = static_cast<std::size_t>(from.size.height);
  T* const to = scratch.next<T>(width * channels * height);
  for (std::size_t y = 0; y < height; ++y) {
    const T* row = from.row<T>(y);
    T* at = to + (y + 1) * width * channels;
    for (std::size_t x = 0; x < width; ++x, row += channels) {
      at -= channels;
      for (std::size_t c = 0; c < channels; ++c) at[c] = row[c];
    }
  }
  return to;
}

Image mirrored(const Image& from, Scratch& scratch) {
  Image image{from.size, from.row_numbers()};
  if (from.bytes) {
    image.bytes = mirror<std::uint8_t>(from, scratch);
  } else {
    image.floats = mirror<float>(from, scratch);
  }
  return image;
}

class Crop final : public Transform {
 public:
  explicit Crop(const CropSettings& s) : s_(s) {}

  Image apply(const Image& from, Work& work) const override {
    const std::int64_t width = from.size.width, height = from.size.height;
    const auto [w, h] = size_of_crop(width, height, work.random);
    const std::int64_t free_x = width - w, free_y = height - h;
    std::int64_t x = free_x / 2, y = free_y / 2;
    bool flip = false;
    switch (s_.type) {
      case CropType::center:
        break;
      case CropType::random_side:
      case CropType::random_area:
        x = work.random.below(free_x + 1);
        y = work.random.below(free_y + 1);
        break;
      case CropType::multiview10: {
        // The corners from left to right and top to bottom, the center, then the same mirrored.
        const int corner = work.view % 5;
        if (corner < 4) x = corner % 2 == 0 ? 0 : free_x, y = corner < 2 ? 0 : free_y;
        flip = work.view >= 5;
        break;
      }
    }
    if (s_.flip && s_.type != CropType::multiview10) flip = work.random.below(2) == 1;
    const Image image = cut_out(from, x, y, w, h);
    return flip ? mirrored(image, work.scratch) : image;
  }

 private:
  struct Extent {
    std::int64_t width, height;
  };

  double draw(const Range& r, CounterRandom& random) const {
    if (!s_.jitter || r.low == r.high) return r.low;
    return r.low + (r.high - r.low) * random.uniform_double();
  }

  Extent size_of_crop(std::int64_t width, std::int64_t height, CounterRandom& random) const {
    if (s_.width > 0 && s_.height > 0) return {std::min(width, s_.width), std::min(height, s_.height)};
    // A ratio drawn may not fit into a slim image; after ten tries the whole of it is taken.
    for (int i = 0; i < 10; ++i) {
      Extent e{width, height};
      if (!s_.side.empty()) {
        const auto shorter = static_cast<double>(std::min(width, height));
        e.width = e.height = std::llround(shorter * draw(s_.side, random));
      } else if (!s_.area.empty()) {
        const auto pixels = static_cast<double>(width * height);
        e.width = e.height = std::llround(std::sqrt(pixels * draw(s_.area, random)));
      }
      if (const double aspect = draw(s_.aspect, random); aspect != 1) {
        const auto area = static_cast<double>(e.width * e.height);
        const auto narrow = static_cast<std::int64_t>(std::sqrt(area * aspect));
        const auto wide = static_cast<std::int64_t>(std::sqrt(area / aspect));
        e = random.below(2) == 1 ? Extent{narrow, wide} : Extent{wide, narrow};
      }
      e = {std::max<std::int64_t>(e.width, 1), std::max<std::int64_t>(e.height, 1)};
      if (e.width <= width && e.height <= height) return e;
    }
    return {width, height};
  }

  CropSettings s_;
};

class Scale final : public Transform {
 public:
  explicit Scale(const ScaleSettings& s) : s_(s) {}

  Image apply(const Image& from, Work& work) const override {
    if (s_.mode == ScaleMode::fill) return work.resizer(from, s_.width, s_.height, s_.interpolation, work.scratch);
    const double x = static_cast<double>(s_.width) / static_cast<double>(from.size.width);
    const double y = static_cast<double>(s_.height) / static_cast<double>(from.size.height);
    const bool crop = s_.mode == ScaleMode::crop;
    const bool by_width = crop ? x > y : x < y;
    std::int64_t width = s_.width, height = s_.height;
    if (by_width) {
      height = std::llround(static_cast<double>(from.size.height) * x);
    } else {
      width = std::llround(static_cast<double>(from.size.width) * y);
    }
    width = crop ? std::max(width, s_.width) : std::clamp<std::int64_t>(width, 1, s_.width);
    height = crop ? std::max(height, s_.height) : std::clamp<std::int64_t>(height, 1, s_.height);
    check_image_size(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height));  // of a thread, say
    const Image scaled = work.resizer(from, width, height, s_.interpolation, work.scratch);
    if (crop) return cut_out(scaled, (width - s_.width) / 2, (height - s_.height) / 2, s_.width, s_.height);
    return padded(scaled, work.scratch);
  }

 private:
  Image padded(const Image& from, Scratch& scratch) const {
    Image image{{s_.width, s_.height, from.size.channels}};
    image.stride = image.row_numbers();
    if (from.bytes) {
      image.bytes = pad<std::uint8_t>(from, image, scratch);
    } else {
      image.floats = pad<float>(from, image, scratch);
    }
    return image;
  }

  template <class T>
  const T* pad(const Image& from, const Image& image, Scratch& scratch) const {
    const std::int64_t left = (s_.width - from.size.width) / 2, top = (s_.height - from.size.height) / 2;
    T* const to = scratch.next<T>(image.stride * static_cast<std::size_t>(s_.height));
    const auto value = static_cast<T>(std::clamp<std::int64_t>(s_.pad_value, 0, 255));
    T* at = to;
    for (std::int64_t y = 0; y < s_.height; ++y)
      for (std::int64_t x = 0; x < s_.width; ++x) {
        const std::int64_t sx = x - left, sy = y - top;
        const std::int64_t cx = std::clamp<std::int64_t>(sx, 0, from.size.width - 1),
                           cy = std::clamp<std::int64_t>(sy, 0, from.size.height - 1);
        const bool outside = cx != sx || cy != sy;
        const T* const pixel = from.row<T>(static_cast<std::size_t>(cy)) + cx * from.size.channels;
        for (std::int64_t c = 0; c < from.size.channels; ++c) *at++ = outside && s_.pad_value >= 0 ? value : pixel[c];
      }
    return to;
  }

  ScaleSettings s_;
};

}  // namespace

std::unique_ptr<const Transform> make_crop(const CropSettings& s) { return std::make_unique<Crop>(s); }
std::unique_ptr<const Transform> make_scale(const ScaleSettings& s) { return std::make_unique<Scale>(s); }

}  // namespace tutti::reader
