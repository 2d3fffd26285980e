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

// A ratio or a range of ratios, "0.5" or "0.5:1".
Range ratio(config::Fields& f, std::string_view key, const config::Schedule<double>& s, bool may_be_absent) {
  if (s.empty()) return {};
  const auto [low, high] = ends(s);
  const bool absent = may_be_absent && low == 0 && high == 0;
  if (s.size() > 2 || (!absent && !(low > 0 && high <= 1 && low <= high)))
    f.problem(key, fmt::format("{} is a ratio or a range of ratios above 0 and up to 1", key), "0.8, or 0.5:1");
  return {low, high};
}

bool readable(const config::Record& block, const char* key, const std::string& path, const ReaderContext& context) {
  const auto before = context.problems->count();
  check_file(block, key, path, context);
  return context.problems->count() == before;
}

}  // namespace

const std::vector<std::pair<std::string, Choice>>& yes_or_no() {
  static const std::vector<std::pair<std::string, Choice>> words = {
      {"auto", Choice::automatic}, {"true", Choice::yes}, {"false", Choice::no}, {"yes", Choice::yes},
      {"no", Choice::no},          {"1", Choice::yes},    {"0", Choice::no}};
  return words;
}

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
  f.choice("hflip", flip, yes_or_no(),
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

void describe_scaling(config::Fields& f, ScaleSettings& s) {
  f.choice("interpolations", s.interpolation,
           {{"linear", Interpolation::linear},
            {"nearest", Interpolation::nearest},
            {"cubic", Interpolation::cubic},
            {"lanczos", Interpolation::lanczos}},
           "interpolation method");
  f.choice("scaleMode", s.mode, {{"fill", ScaleMode::fill}, {"crop", ScaleMode::crop}, {"pad", ScaleMode::pad}},
           "fill distorts the image; crop keeps its proportions and cuts off, pad keeps them and adds a border");
  f("padValue", s.pad_value, "grey of the border, 0 to 255; -1 repeats the edge");
  if (s.pad_value < -1 || s.pad_value > 255) f.problem("padValue", "padValue is a grey value", "0 to 255, or -1");
}

void ScaleOptions::describe(config::Fields& f) {
  f("width", settings.width, "columns of pixels");
  f.required("width");
  f("height", settings.height, "rows of pixels");
  f.required("height");
  f("channels", channels, "3 for colour (blue, green, red), 1 for grey");
  f.required("channels");
  describe_scaling(f, settings);
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

std::function<std::unique_ptr<const Transform>()> mean_of(const MeanOptions& o, ImageSize size,
                                                          const config::Record& block, const ReaderContext& context) {
  if (o.file.empty() || !readable(block, "meanFile", o.file, context)) return {};
  const auto fail = [&](std::string message, std::string fix) {
    context.problems->add(Diagnostic{block.value("meanFile").where, std::move(message), std::move(fix)});
  };
  try {
    const OpencvXml xml(o.file);
    const ImageSize found{xml.integer("Col"), xml.integer("Row"), xml.integer("Channel")};
    auto mean = std::make_shared<const std::vector<float>>(xml.matrix("MeanImg").values);
    if (static_cast<std::int64_t>(mean->size()) != found.numbers()) {
      fail(fmt::format("'{}': MeanImg has {} numbers, but Col x Row x Channel is {} x {} x {}", o.file, mean->size(),
                       found.width, found.height, found.channels),
           "the file is damaged; create it again");
    } else if (size.numbers() == 0) {
      fail("a mean image is subtracted from images of different sizes", "put Scale before Mean");
    } else if (found != size) {
      fail(fmt::format("the mean image in '{}' is {} x {} x {} (width, height, channels), the images are {} x {} x {}",
                       o.file, found.width, found.height, found.channels, size.width, size.height, size.channels),
           "compute the mean image from images of this size");
    } else {
      return [size, mean] { return make_mean(size, *mean); };
    }
  } catch (const Error& e) {
    fail(e.what(), "");
  }
  return {};
}

std::function<std::unique_ptr<const Transform>()> intensity_of(const IntensityOptions& o, const config::Record& block,
                                                               const ReaderContext& context) {
  if (o.file.empty() || !readable(block, "intensityFile", o.file, context)) return {};
  try {
    const OpencvXml xml(o.file);
    const auto values = xml.matrix("EigVal"), vectors = xml.matrix("EigVec");
    if (values.values.size() != 3 || vectors.rows != 3 || vectors.values.size() != 9)
      throw Error(fmt::format("reading '{}': EigVal has 3 numbers, EigVec 3 x 3", o.file));
    if (o.deviation == 0) return {};
    return [deviation = o.deviation, values, vectors] {
      std::array<float, 3> v{};
      std::array<float, 9> e{};
      std::copy_n(values.values.begin(), 3, v.begin());
      std::copy_n(vectors.values.begin(), 9, e.begin());
      return make_intensity(deviation, v, e);
    };
  } catch (const Error& e) {
    context.problems->add(Diagnostic{block.value("intensityFile").where, e.what(), {}});
  }
  return {};
}

namespace {

template <class Options>
std::shared_ptr<Options> read_options(const config::Record& block, const std::string& name,
                                      const ReaderContext& context) {
  auto o = std::make_shared<Options>();
  config::read_fields(block, name, [&](config::Fields& f) { o->describe(f); }, *context.problems, *context.notices,
                      {"type"});
  return o;
}

template <class Options>
TransformSpec spec(const char* name, std::shared_ptr<Options> o) {
  TransformSpec s;
  s.type = name;
  s.describe = [o](config::Fields& f) { o->describe(f); };
  return s;
}

struct NoOptions {
  std::string precision = "float";
  void describe(config::Fields& f) { f("precision", precision, "accepted; data are float32 either way"); }
};

TransformSpec read_crop(const config::Record& block, ImageSize, const ReaderContext& context) {
  const auto o = read_options<CropOptions>(block, "Crop", context);
  TransformSpec s = spec("Crop", o);
  s.make = [settings = o->settings] { return make_crop(settings); };
  s.ten_views = o->settings.type == CropType::multiview10;
  if (o->settings.width > 0) s.size = {o->settings.width, o->settings.height, 0};
  return s;
}

TransformSpec read_scale(const config::Record& block, ImageSize, const ReaderContext& context) {
  const auto o = read_options<ScaleOptions>(block, "Scale", context);
  TransformSpec s = spec("Scale", o);
  s.make = [settings = o->settings] { return make_scale(settings); };
  s.size = o->size();
  return s;
}

TransformSpec read_color(const config::Record& block, ImageSize, const ReaderContext& context) {
  const auto o = read_options<ColorOptions>(block, "Color", context);
  TransformSpec s = spec("Color", o);
  if (!o->settings.nothing()) s.make = [settings = o->settings] { return make_color(settings); };
  return s;
}

TransformSpec read_intensity(const config::Record& block, ImageSize, const ReaderContext& context) {
  const auto o = read_options<IntensityOptions>(block, "Intensity", context);
  TransformSpec s = spec("Intensity", o);
  s.make = intensity_of(*o, block, context);
  return s;
}

TransformSpec read_mean(const config::Record& block, ImageSize before, const ReaderContext& context) {
  const auto o = read_options<MeanOptions>(block, "Mean", context);
  TransformSpec s = spec("Mean", o);
  s.make = mean_of(*o, before, block, context);
  return s;
}

TransformSpec read_transpose(const config::Record& block, ImageSize, const ReaderContext& context) {
  TransformSpec s = spec("Transpose", read_options<NoOptions>(block, "Transpose", context));
  s.transpose = true;
  return s;
}

TransformSpec read_cast(const config::Record& block, ImageSize, const ReaderContext& context) {
  return spec("Cast", read_options<NoOptions>(block, "Cast", context));
}

}  // namespace

const std::vector<TransformRow>& transform_table() {
  static const std::vector<TransformRow> rows = {
      {"Crop", "cuts a part out, at random or in the middle, and may mirror it", describe_defaults<CropOptions>,
       read_crop},
      {"Scale", "scales images to one size", describe_defaults<ScaleOptions>, read_scale},
      {"Color", "changes brightness, contrast and saturation at random", describe_defaults<ColorOptions>, read_color},
      {"Intensity", "changes the colour of the light at random", describe_defaults<IntensityOptions>, read_intensity},
      {"Mean", "subtracts a mean image", describe_defaults<MeanOptions>, read_mean},
      {"Transpose", "lays samples out as width, height, channels instead of channels, width, height",
       describe_defaults<NoOptions>, read_transpose},
      {"Cast", "accepted; data are float32 either way", describe_defaults<NoOptions>, read_cast},
  };
  return rows;
}

}  // namespace tutti::reader
