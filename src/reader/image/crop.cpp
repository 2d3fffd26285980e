// SPDX-License-Identifier: Apache-2.0
// Crop cuts a rectangle out, by size or by ratio, and may mirror it. Scale brings it to the size of the network's
// input.
#include <algorithm>
#include <cmath>

#include "reader/image/decoder.h"
#include "reader/image/transform.h"

namespace tutti::reader {
namespace {

Image cut_out(const Image& from, std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height) {
  Image image = from;
  image.size.width = width;
  image.size.height = height;
  const std::size_t first =
      static_cast<std::size_t>(y) * from.stride + static_cast<std::size_t>(x * from.size.channels);
  if (from.bytes) {
    image.bytes += first;
  } else {
    image.floats += first;
  }
  return image;
}

Image mirrored(const Image& from, Scratch& scratch) {
  const auto width = static_cast<std::size_t>(from.size.width), channels = static_cast<std::size_t>(from.size.channels);
  const auto height = static_cast<std::size_t>(from.size.height);
  return with_type(from, [&]<class T>(T) {
    T* const to = scratch.next<T>(width * channels * height);
    for (std::size_t y = 0; y < height; ++y) {
      const T* row = from.row<T>(y);
      T* at = to + (y + 1) * width * channels;
      for (std::size_t x = 0; x < width; ++x, row += channels) {
        at -= channels;
        for (std::size_t c = 0; c < channels; ++c) at[c] = row[c];
      }
    }
    return packed_image(from.size, to);
  });
}

struct Extent {
  std::int64_t width, height;
};

double draw(const CropSettings& s, const Range& r, CounterRandom& random) {
  if (!s.jitter || r.low == r.high) return r.low;
  return r.low + (r.high - r.low) * random.uniform_double();
}

Extent size_of_crop(const CropSettings& s, std::int64_t width, std::int64_t height, CounterRandom& random) {
  if (s.width > 0 && s.height > 0) return {std::min(width, s.width), std::min(height, s.height)};
  // A ratio drawn may not fit into a slim image; after ten tries the whole of it is taken.
  for (int i = 0; i < 10; ++i) {
    Extent e{width, height};
    if (!s.side.empty()) {
      const auto shorter = static_cast<double>(std::min(width, height));
      e.width = e.height = std::llround(shorter * draw(s, s.side, random));
    } else if (!s.area.empty()) {
      const auto pixels = static_cast<double>(width * height);
      e.width = e.height = std::llround(std::sqrt(pixels * draw(s, s.area, random)));
    }
    if (const double aspect = draw(s, s.aspect, random); aspect != 1) {
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

Image crop(const CropSettings& s, const Image& from, Work& work) {
  const std::int64_t width = from.size.width, height = from.size.height;
  const auto [w, h] = size_of_crop(s, width, height, work.random);
  const std::int64_t free_x = width - w, free_y = height - h;
  std::int64_t x = free_x / 2, y = free_y / 2;
  bool flip = false;
  switch (s.type) {
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
  if (s.flip && s.type != CropType::multiview10) flip = work.random.below(2) == 1;
  const Image image = cut_out(from, x, y, w, h);
  return flip ? mirrored(image, work.scratch) : image;
}

Image padded(const ScaleSettings& s, const Image& from, Scratch& scratch) {
  const ImageSize size{s.width, s.height, from.size.channels};
  const std::int64_t left = (s.width - from.size.width) / 2, top = (s.height - from.size.height) / 2;
  return with_type(from, [&]<class T>(T) {
    T* const to = scratch.next<T>(static_cast<std::size_t>(size.numbers()));
    const auto value = static_cast<T>(std::clamp<std::int64_t>(s.pad_value, 0, 255));
    T* at = to;
    for (std::int64_t y = 0; y < s.height; ++y)
      for (std::int64_t x = 0; x < s.width; ++x) {
        const std::int64_t sx = x - left, sy = y - top;
        const std::int64_t cx = std::clamp<std::int64_t>(sx, 0, from.size.width - 1),
                           cy = std::clamp<std::int64_t>(sy, 0, from.size.height - 1);
        const bool outside = cx != sx || cy != sy;
        const T* const pixel = from.row<T>(static_cast<std::size_t>(cy)) + cx * from.size.channels;
        for (std::int64_t c = 0; c < from.size.channels; ++c) *at++ = outside && s.pad_value >= 0 ? value : pixel[c];
      }
    return packed_image(size, to);
  });
}

Image scale(const ScaleSettings& s, const Image& from, Work& work) {
  if (s.mode == ScaleMode::fill) return work.resizer(from, s.width, s.height, s.interpolation, work.scratch);
  // The product comes before the division, as in CNTK: a rounded quotient would be one pixel off at times.
  const std::int64_t by_x = s.width * from.size.height, by_y = s.height * from.size.width;
  const bool cuts = s.mode == ScaleMode::crop;
  const bool by_width = cuts ? by_x > by_y : by_x < by_y;
  std::int64_t width = s.width, height = s.height;
  if (by_width) {
    height = std::llround(static_cast<double>(by_x) / static_cast<double>(from.size.width));
  } else {
    width = std::llround(static_cast<double>(by_y) / static_cast<double>(from.size.height));
  }
  width = cuts ? std::max(width, s.width) : std::clamp<std::int64_t>(width, 1, s.width);
  height = cuts ? std::max(height, s.height) : std::clamp<std::int64_t>(height, 1, s.height);
  check_image_size(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height));  // of a thread, say
  const Image scaled = work.resizer(from, width, height, s.interpolation, work.scratch);
  if (cuts) return cut_out(scaled, (width - s.width) / 2, (height - s.height) / 2, s.width, s.height);
  return padded(s, scaled, work.scratch);
}

}  // namespace

Transform make_crop(const CropSettings& s) { return std::bind_front(crop, s); }
Transform make_scale(const ScaleSettings& s) { return std::bind_front(scale, s); }

}  // namespace tutti::reader
