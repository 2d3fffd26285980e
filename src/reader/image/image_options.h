// SPDX-License-Identifier: Apache-2.0
// image_options.h -- the blocks of readerType = "ImageReader" and of the deserializers of images, with their
// transforms.
#pragma once

#include "reader/image/image_source.h"
#include "reader/order_options.h"
#include "reader/reader_row.h"

namespace tutti::reader {

inline const std::vector<std::pair<std::string, Choice>> yes_or_no = {
    {"auto", Choice::automatic}, {"true", Choice::yes}, {"false", Choice::no}, {"yes", Choice::yes},
    {"no", Choice::no},          {"1", Choice::yes},    {"0", Choice::no}};

// Options of a transform add it to a recipe; faults in files that they name are mistakes at that key of the block.
struct CropOptions {
  CropSettings settings;
  Choice flip = Choice::automatic;
  config::Schedule<std::int64_t> size{0};
  config::Schedule<double> side{0.0}, area{0.0}, aspect{1.0};
  void describe(config::Fields& f);
  void add_to(Recipe&, const config::Record& block, const ReaderContext&) const;
};

struct ScaleOptions {
  ScaleSettings settings;
  std::int64_t channels = 0;
  void describe(config::Fields& f);
  void add_to(Recipe&, const config::Record& block, const ReaderContext&) const;
};

struct ColorOptions {
  ColorSettings settings;
  void describe(config::Fields& f);
  void add_to(Recipe&, const config::Record& block, const ReaderContext&) const;
};

struct IntensityOptions {
  double deviation = 0;
  std::string file;
  void describe(config::Fields& f);
  void add_to(Recipe&, const config::Record& block, const ReaderContext&) const;
};

struct MeanOptions {
  std::string file;
  void describe(config::Fields& f);
  void add_to(Recipe&, const config::Record& block, const ReaderContext&) const;
};

struct LabelOptions {
  std::int64_t dim = 0;
  bool sparse = false;
  void describe(config::Fields& f);
};

struct TransformRow {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
  // Reads the transform's block and adds it to the recipe; returns what describes the options in effect.
  std::function<std::function<void(config::Fields&)>(const config::Record& block, Recipe&, const ReaderContext&)> read;
};
const std::vector<TransformRow>& transform_table();

}  // namespace tutti::reader
