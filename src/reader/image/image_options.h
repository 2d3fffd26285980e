// SPDX-License-Identifier: Apache-2.0
// image_options.h -- the blocks of readerType = "ImageReader" and of the deserializers of images, with their
// transforms.
#pragma once

#include "reader/image/image_source.h"
#include "reader/order_options.h"
#include "reader/reader_row.h"

namespace tutti::reader {

enum class Choice { automatic, yes, no };
const std::vector<std::pair<std::string, Choice>>& yes_or_no();  // the words for it

struct CropOptions {
  CropSettings settings;
  Choice flip = Choice::automatic;
  config::Schedule<std::int64_t> size{0};
  config::Schedule<double> side{0.0}, area{0.0}, aspect{1.0};
  void describe(config::Fields& f);
};

struct ScaleOptions {
  ScaleSettings settings;
  std::int64_t channels = 0;
  void describe(config::Fields& f);
  ImageSize size() const { return {settings.width, settings.height, channels}; }
};
// The same without the target size, which is set elsewhere.
void describe_scaling(config::Fields& f, ScaleSettings&);

struct ColorOptions {
  ColorSettings settings;
  void describe(config::Fields& f);
};

struct IntensityOptions {
  double deviation = 0;
  std::string file;
  void describe(config::Fields& f);
};

struct MeanOptions {
  std::string file;
  void describe(config::Fields& f);
};

struct LabelOptions {
  std::int64_t dim = 0;
  bool sparse = false;
  void describe(config::Fields& f);
};

// The features of ImageReader: all transforms in one block.
struct ImageFeatureOptions {
  ScaleOptions scale;
  CropOptions crop;
  ColorOptions color;
  IntensityOptions intensity;
  MeanOptions mean;
  bool channels_first = true;
  void describe(config::Fields& f);
};

// Shared by ImageReader and the deserializers.
struct ImageFileOptions {
  std::string file;
  Choice grayscale = Choice::automatic;
  CheckData check = CheckData::files;
  std::int64_t max_errors = 0;
  std::int64_t loaders = 0;
  std::string precision = "float";
  void describe(config::Fields& f);
};

// One transform of a chain, read from its block.
struct TransformSpec {
  std::string type;
  std::function<void(config::Fields&)> describe;
  std::function<std::unique_ptr<const Transform>()> make;  // empty when there is nothing to do to pixels
  ImageSize size;                                          // that images have from here on; all 0 when unchanged
  bool transpose = false, ten_views = false;
};
struct TransformRow {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
  TransformSpec (*read)(const config::Record& block, ImageSize before, const ReaderContext& context);
};
const std::vector<TransformRow>& transform_table();

// Both read files named in the block; faults in them are mistakes at that key.
std::function<std::unique_ptr<const Transform>()> mean_of(const MeanOptions&, ImageSize, const config::Record& block,
                                                          const ReaderContext&);
std::function<std::unique_ptr<const Transform>()> intensity_of(const IntensityOptions&, const config::Record& block,
                                                               const ReaderContext&);

Made read_image_reader(const config::Record& block, const ReaderContext& context);
void describe_image_reader(config::Fields& f);
Made read_image_deserializer(const config::Record& block, const ReaderContext& context);
Made read_base64_deserializer(const config::Record& block, const ReaderContext& context);
void describe_image_deserializer(config::Fields& f);

}  // namespace tutti::reader
