// SPDX-License-Identifier: Apache-2.0
// transform.h -- what is done to an image between its file and the network: crop, scale, colour, mean. A chain of
// transforms is shared by all workers; what they draw at random comes with the image.
#pragma once

#include <functional>
#include <vector>

#include "reader/image/resize.h"

namespace tutti::reader {

// What belongs to the image at hand, and the worker's tools.
struct Work {
  CounterRandom random;
  int view = 0;  // of multiview10, 0 to 9
  Scratch& scratch;
  Resizer& resizer;
};

// May change pixels only in places that it took from the scratch itself. Throws BadImage. Called by many threads.
using Transform = std::function<Image(const Image&, Work&)>;

// All that is done to an image.
struct Recipe {
  std::vector<Transform> chain;
  ImageSize size;               // of what the chain hands on; 0 = unknown
  bool channels_first = false;  // layout of a sample: width, height, channels; else channels, width, height
  bool ten_views = false;       // every image stands ten times in a row
};

enum class CropType { center, random_side, random_area, multiview10 };

struct Range {
  double low = 0, high = 0;
  bool empty() const { return low == 0 && high == 0; }
};

struct CropSettings {
  CropType type = CropType::center;
  std::int64_t width = 0, height = 0;  // 0: by a ratio
  Range side, area, aspect{1, 1};
  bool jitter = false;  // ratios drawn from their ranges, else the lower ends
  bool flip = false;    // mirrored with probability one half
};

enum class ScaleMode { fill, crop, pad };

struct ScaleSettings {
  std::int64_t width = 0, height = 0;
  Interpolation interpolation = Interpolation::linear;
  ScaleMode mode = ScaleMode::fill;
  std::int64_t pad_value = -1;  // -1 repeats the edge
};

struct ColorSettings {
  double brightness = 0, contrast = 0, saturation = 0;
  bool nothing() const { return brightness == 0 && contrast == 0 && saturation == 0; }
};

Transform make_crop(const CropSettings&);
Transform make_scale(const ScaleSettings&);
Transform make_color(const ColorSettings&);
// Values and vectors of the colours' covariance, in the order R, G, B.
Transform make_intensity(double deviation, const std::array<float, 3>& values, const std::array<float, 9>& vectors);
// The mean image, channels fastest.
Transform make_mean(ImageSize, std::vector<float> mean);

}  // namespace tutti::reader
