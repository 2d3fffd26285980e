// SPDX-License-Identifier: Apache-2.0
// Options of the transforms, and the table of those that may stand in transforms = ([type = ...] : ...).
#include <fmt/format.h>

#include <algorithm>

#include "reader/image/image_options.h"
#include "reader/image/opencv_xml.h"

namespace tutti::reader {
namespace {

template <class T>
std::pair<T, T> ends(const config::Schedule<T>& s) {
  return {s.at(0), s.at(1)};
}

// A ratio or a range of ratios, "0.5" or "0.5:1". Rounded to float as in CNTK, which decides where a product with a
// number of pixels is half-way: 75 * 0.9 is 67 pixels.
Range ratio(config::Fields& f, std::string_view key, const config::Schedule<double>& s, bool may_be_absent) {
  if (s.empty()) return {};
  const auto [low, high] = ends(s);
  const bool absent = may_be_absent && low == 0 && high == 0;
  if (s.size() > 2 || (!absent && !(low > 0 && high <= 1 && low <= high)))
    f.problem(key, fmt::format("{} is a ratio or a range of ratios above 0 and up to 1", key), "0.8, or 0.5:1");
  return {static_cast<float>(low), static_cast<float>(high)};
}

}  // namespace

void CropOptions::describe(config::Fields& f) {
  f.choice("cropType", settings.type,
           {{"center", CropType::center},
            {"randomside", CropType::random_side},
            {"randomarea", CropType::random_area},
            {"multiview10", CropType::multiview10},
            {"random", CropType::random_side}},
           "where the crop lies; multiview10 makes ten samples of each image: corners and center, each also mirrored");
  f("cropSize", size, "width:height of the crop in pixels, or one number for both; 0 = by a ratio");
  f("sideRatio", side, "side of the crop as a part of the image's shorter side, a or a:b; 0 = not used");
  f.alias("cropRatio", "sideRatio", "this is its newer name");
  f("areaRatio", area, "area of the crop as a part of the image's, a or a:b; 0 = not used");
  f("aspectRatio", aspect, "shorter by longer side of the crop, a or a:b");
  f.choice("jitterType", settings.jitter, {{"none", false}, {"uniratio", true}},
           "draw ratios from their ranges, else the lower ends are taken");
  const bool random = settings.type == CropType::random_side || settings.type == CropType::random_area;
  f.choice("hflip", flip, yes_or_no,
           "mirror every other image at random; auto = for random crops; never for multiview10");
  settings.flip = flip == Choice::yes || (flip == Choice::automatic && random);

  if (!size.empty()) std::tie(settings.width, settings.height) = ends(size);
  if (settings.width < 0 || settings.height < 0 || (settings.width == 0) != (settings.height == 0) || size.size() > 2)
    f.problem("cropSize", "cropSize is a width and a height in pixels", "224, or 224:192");
  settings.side = ratio(f, "sideRatio", side, true);
  settings.area = ratio(f, "areaRatio", area, true);
  settings.aspect = ratio(f, "aspectRatio", aspect, false);
  if (!settings.side.empty() && !settings.area.empty())
    f.problem("areaRatio", "sideRatio and areaRatio both give the size of the crop", "keep one of them");
}

void ScaleOptions::describe(config::Fields& f) {
  f("width", settings.width, "columns of pixels");
  f.required("width");
  f("height", settings.height, "rows of pixels");
  f.required("height");
  f("channels", channels, "3 for colour (blue, green, red), 1 for grey");
  f.required("channels");
  f.choice("interpolations", settings.interpolation,
           {{"linear", Interpolation::linear},
            {"nearest", Interpolation::nearest},
            {"cubic", Interpolation::cubic},
            {"lanczos", Interpolation::lanczos}},
           "interpolation method");
  f.choice("scaleMode", settings.mode, {{"fill", ScaleMode::fill}, {"crop", ScaleMode::crop}, {"pad", ScaleMode::pad}},
           "fill distorts the image; crop keeps its proportions and cuts off, pad keeps them and adds a border");
  f("padValue", settings.pad_value, "grey of the border, 0 to 255; -1 repeats the edge");
  if (settings.pad_value < -1 || settings.pad_value > 255)
    f.problem("padValue", "padValue is a grey value", "0 to 255, or -1");
  const auto check = [&](const char* key, std::int64_t n, std::int64_t most) {
    if (f.given(key) && (n < 1 || n > most)) f.problem(key, fmt::format("{} is from 1 to {}", key, most), "");
  };
  check("width", settings.width, 65535);
  check("height", settings.height, 65535);
  if (f.given("channels") && channels != 1 && channels != 3)
    f.problem("channels", "images have 1 channel (grey) or 3 (blue, green, red)", "channels = 3");
}

void ColorOptions::describe(config::Fields& f) {
  const auto radius = [&](const char* key, double& v, const char* doc) {
    f(key, v, doc);
    if (v < 0 || v > 1) f.problem(key, fmt::format("{} is from 0 to 1", key), "0 changes nothing");
  };
  radius("brightnessRadius", settings.brightness, "brightness changes at random by up to this part of the mean");
  radius("contrastRadius", settings.contrast, "contrast: multiply pixels by 1 plus or minus up to this");
  radius("saturationRadius", settings.saturation, "saturation is multiplied by 1 plus or minus up to this");
}

void IntensityOptions::describe(config::Fields& f) {
  f("intensityStdDev", deviation, "standard deviation of the random light along the main axes of colour; 0 = none");
  f("intensityFile", file, "OpenCV XML file with the matrices EigVal (1 x 3) and EigVec (3 x 3)");
  if (deviation < 0) f.problem("intensityStdDev", "a standard deviation is not negative", "0 = none");
}

void MeanOptions::describe(config::Fields& f) {
  f("meanFile", file, "OpenCV XML file with Channel, Row, Col and the matrix MeanImg, which is subtracted");
}

void LabelOptions::describe(config::Fields& f) {
  f("labelDim", dim, "number of classes; the stream is one-hot");
  f.required("labelDim");
  f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "format of one-hot vectors");
  if (f.given("labelDim") && (dim < 1 || dim > 2'147'483'647))
    f.problem("labelDim", "labelDim is the number of classes", "10 for ten of them");
}

void CropOptions::add_to(Recipe& recipe, const config::Record& block, const ReaderContext& context) const {
  if (settings.width > 0 && !(settings.side.empty() && settings.area.empty()))
    for (const char* key : {"sideRatio", "cropRatio", "areaRatio"})
      note_no_effect(block, key, "with cropSize", "keep one of them", context);
  recipe.chain.push_back(make_crop(settings));
  recipe.ten_views = recipe.ten_views || settings.type == CropType::multiview10;
  if (settings.width > 0) recipe.size.width = settings.width, recipe.size.height = settings.height;
}

void ScaleOptions::add_to(Recipe& recipe, const config::Record& block, const ReaderContext& context) const {
  if (settings.mode != ScaleMode::pad)
    note_no_effect(block, "padValue", "without scaleMode = pad", "scaleMode = \"pad\"", context);
  recipe.chain.push_back(make_scale(settings));
  if (settings.width > 0) recipe.size.width = settings.width, recipe.size.height = settings.height;
  if (channels > 0) recipe.size.channels = channels;
}

void ColorOptions::add_to(Recipe& recipe, const config::Record&, const ReaderContext&) const {
  if (!settings.nothing()) recipe.chain.push_back(make_color(settings));
}

void MeanOptions::add_to(Recipe& recipe, const config::Record& block, const ReaderContext& context) const {
  if (!check_file(block, "meanFile", file, context)) return;
  const ImageSize size = recipe.size;
  const auto fail = [&](std::string message, std::string fix) {
    context.problems->add(Diagnostic{block.value("meanFile").where, std::move(message), std::move(fix)});
  };
  try {
    const OpencvXml xml(file);
    const ImageSize found{xml.integer("Col"), xml.integer("Row"), xml.integer("Channel")};
    std::vector<float> mean = xml.matrix("MeanImg").values;
    if (static_cast<std::int64_t>(mean.size()) != found.numbers()) {
      fail(fmt::format("'{}': MeanImg has {} numbers, but Col x Row x Channel is {} x {} x {}", file, mean.size(),
                       found.width, found.height, found.channels),
           "the file is damaged; create it again");
    } else if (size.numbers() == 0) {
      fail("a mean image is subtracted from images of different sizes", "put Scale before Mean");
    } else if (found != size) {
      fail(fmt::format("the mean image in '{}' is {} x {} x {} (width, height, channels), the images are {} x {} x {}",
                       file, found.width, found.height, found.channels, size.width, size.height, size.channels),
           "compute the mean image from images of this size");
    } else {
      recipe.chain.push_back(make_mean(size, std::move(mean)));
    }
  } catch (const Error& e) {
    fail(e.what(), "");
  }
}

void IntensityOptions::add_to(Recipe& recipe, const config::Record& block, const ReaderContext& context) const {
  if (file.empty() && deviation > 0)
    note_no_effect(block, "intensityStdDev", "without intensityFile", "intensityFile = \"intensity.xml\"", context);
  if (!check_file(block, "intensityFile", file, context)) return;
  if (deviation == 0)
    note_no_effect(block, "intensityFile", "without intensityStdDev", "intensityStdDev = 0.1", context);
  try {
    const OpencvXml xml(file);
    const auto values = xml.matrix("EigVal"), vectors = xml.matrix("EigVec");
    if (values.values.size() != 3 || vectors.rows != 3 || vectors.values.size() != 9)
      throw Error(fmt::format("reading '{}': EigVal has 3 numbers, EigVec 3 x 3", file));
    if (deviation == 0) return;
    std::array<float, 3> v{};
    std::array<float, 9> e{};
    std::copy_n(values.values.begin(), 3, v.begin());
    std::copy_n(vectors.values.begin(), 9, e.begin());
    recipe.chain.push_back(make_intensity(deviation, v, e));
  } catch (const Error& e) {
    context.problems->add(Diagnostic{block.value("intensityFile").where, e.what(), {}});
  }
}

namespace {

struct CastOptions {
  std::string precision = "float";
  void describe(config::Fields& f) { f("precision", precision, "accepted; data are float32 either way"); }
  void add_to(Recipe&, const config::Record&, const ReaderContext&) const {}
};

struct TransposeOptions : CastOptions {
  void add_to(Recipe& recipe, const config::Record&, const ReaderContext&) const { recipe.channels_first = true; }
};

struct MeanTransformOptions : MeanOptions {
  void add_to(Recipe& recipe, const config::Record& block, const ReaderContext& context) const {
    if (file.empty())
      context.notices->add({block.where(), "Mean has no effect without meanFile", "meanFile = \"mean.xml\""});
    MeanOptions::add_to(recipe, block, context);
  }
};

template <class Options>
TransformRow row(const char* name, const char* help) {
  return {name, help, describe_defaults<Options>,
          [name](const config::Record& block, Recipe& recipe, const ReaderContext& context) {
            const auto o = std::make_shared<Options>();
            read_block(*o, block, name, context, {"type"});
            o->add_to(recipe, block, context);
            return [o](config::Fields& f) { o->describe(f); };
          }};
}

}  // namespace

const std::vector<TransformRow>& transform_table() {
  static const std::vector<TransformRow> rows = {
      row<CropOptions>("Crop", "cuts a part out, at random or in the middle, and may mirror it"),
      row<ScaleOptions>("Scale", "scales images to one size"),
      row<ColorOptions>("Color", "changes brightness, contrast and saturation at random"),
      row<IntensityOptions>("Intensity", "changes the colour of the light at random"),
      row<MeanTransformOptions>("Mean", "subtracts a mean image"),
      row<TransposeOptions>("Transpose",
                            "lays samples out as width, height, channels instead of channels, width, height"),
      row<CastOptions>("Cast", "accepted; data are float32 either way"),
  };
  return rows;
}

}  // namespace tutti::reader
