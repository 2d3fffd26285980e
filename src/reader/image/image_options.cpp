// SPDX-License-Identifier: Apache-2.0
// Blocks of ImageReader, whose features hold all transforms in a fixed order, and of the deserializers of images, which
// list them.
#include "reader/image/image_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace tutti::reader {
namespace {

using config::Record;

// A chain is made of recipes: sources own their transforms, and a block may be read several times.
struct Recipe {
  std::vector<std::function<std::unique_ptr<const Transform>()>> steps;
  ImageSize size;
  bool channels_first = false, ten_views = false;
};

struct StreamNames {
  std::string features = "features", labels = "labels";
};

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return s;
}

// The one block inside `block` that has one of these keys.
std::optional<std::string> block_with(const Record& block, const std::vector<std::string>& keys,
                                      const std::string& what, const ReaderContext& context) {
  std::vector<std::string> found;
  for (const std::string& name : block.keys()) {
    if (lower(name) == "input" || lower(name) == "transforms" || !block.has_own(name) || !block.is_block(name))
      continue;
    const Record inner = block.block(name);
    if (std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return inner.has_own(key); }))
      found.push_back(name);
  }
  if (found.size() == 1) return found.front();
  context.problems->add(Diagnostic{
      block.where(),
      found.empty() ? fmt::format("no block has '{}': where are the {}?", keys.front(), what)
                    : fmt::format("several blocks have '{}': {}", keys.front(), fmt::join(found, ", ")),
      fmt::format("one stream of images and one of labels: features = [ width = 32 ; height = 32 ; channels = 3 ] and "
                  "labels = [ labelDim = 10 ]")});
  return std::nullopt;
}

// A list of images is a file, or a folder with a folder for each class.
void check_list(const Record& block, const std::string& path, bool folder_allowed, const ReaderContext& context) {
  std::error_code ignored;
  if (folder_allowed && std::filesystem::is_directory(path, ignored)) return;
  check_file(block, "file", path, context);
}

// numCPUThreads of the outer levels is about training, not about loading.
void forget_inherited_loaders(const Record& block, ImageFileOptions& o) {
  if (!block.has_own("numCPUThreads")) o.loaders = 0;
}

bool is_grayscale(const ImageFileOptions& o, std::int64_t channels, const Record& block, const ReaderContext& context) {
  const bool grey = o.grayscale == Choice::automatic ? channels == 1 : o.grayscale == Choice::yes;
  if (grey != (channels == 1) && channels > 0)
    context.problems->add(
        Diagnostic{block.where(), fmt::format("grayscale = {}, but channels = {}", grey, channels),
                   grey ? "images in grey have channels = 1" : "leave grayscale out; channels = 1 means grey images"});
  return grey;
}

std::function<std::unique_ptr<SequenceSource>()> source_of(ImageList::Kind kind, const ImageFileOptions& o,
                                                           const Recipe& recipe, const StreamNames& names,
                                                           const LabelOptions& labels, std::uint64_t seed) {
  return [=] {
    ImageSourceOptions s;
    s.kind = kind;
    s.path = o.file;
    s.features = {names.features, static_cast<std::size_t>(recipe.size.numbers()), false};
    s.labels = {names.labels, static_cast<std::size_t>(labels.dim), labels.sparse};
    s.size = recipe.size;
    for (const auto& make : recipe.steps) s.chain.push_back(make());
    s.grayscale = recipe.size.channels == 1;
    s.channels_first = recipe.channels_first;
    s.ten_views = recipe.ten_views;
    s.check = o.check;
    s.max_errors = o.max_errors;
    s.loaders = o.loaders;
    s.seed = seed;
    return std::make_unique<ImageSource>(std::move(s));
  };
}

// All that ImageReader's block says.
struct ImageReaderOptions {
  ImageFileOptions files;
  OrderOptions order;
  StreamNames names;
  ImageFeatureOptions features;
  LabelOptions labels;
  void describe(config::Fields& f) {
    files.describe(f);
    order.describe(f);
    f.block(names.features, features, "the images, under the name of the network's input");
    f.block(names.labels, labels, "the labels, under the name of the network's input");
    f.no_effect("verbosity", "the reader always names broken images and logs nothing else");
    f.no_effect("traceLevel", "the reader always names broken images and logs nothing else");
    f.no_effect("prefetch", "the next minibatches are always prepared in the background");
    f.no_effect("multiThreadedDeserialization", "numCPUThreads says how many threads load");
    f.no_effect("multiViewCrop", "cropType = \"multiview10\" says it");
  }
};

// One deserializer; the chain is read apart because Fields knows no arrays of blocks.
struct ImageDeserializerOptions {
  ImageFileOptions files;
  StreamNames names;
  std::vector<TransformSpec> chain;
  LabelOptions labels;

  void describe(config::Fields& f) {
    files.describe(f);
    f.no_effect("verbosity", "the reader always names broken images and logs nothing else");
    f.no_effect("traceLevel", "the reader always names broken images and logs nothing else");
    f.no_effect("module", "all deserializers are built in");
    f.no_effect("multiViewCrop", "cropType = \"multiview10\" says it");
  }

  struct Described {
    std::function<void(config::Fields&)> what = [](config::Fields&) {};
    void describe(config::Fields& f) { what(f); }
  };
  // For help and for the settings in effect.
  void describe_with_streams(config::Fields& f) {
    describe(f);
    Described input{[this](config::Fields& in) {
      Described features{[this](config::Fields& inner) {
        Described transforms{[this](config::Fields& list) {
          for (const auto& t : chain) {
            Described one{t.describe};
            list.block(t.type, one, "");
          }
        }};
        inner.block("transforms", transforms,
                    "array of blocks with a type each: what is done to each image, in this order");
      }};
      in.block(names.features, features, "the images, under the name of the network's input");
      in.block(names.labels, labels, "the labels, under the name of the network's input");
    }};
    f.block("input", input, "the streams");
  }
};

Recipe read_chain(const Record& block, ImageDeserializerOptions& o, const ReaderContext& context) {
  Recipe recipe;
  recipe.size.channels = o.files.grayscale == Choice::yes ? 1 : 3;
  for (const Record& t : block.blocks("transforms")) {
    const auto type = t.find_own("type");
    if (!type) {
      context.problems->add(Diagnostic{t.where(), "a transform has no type", "[ type = \"Scale\" ; ... ]"});
      continue;
    }
    const auto& rows = transform_table();
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return lower(r.name) == lower(type->text); });
    if (row == rows.end()) {
      std::vector<std::string> names;
      for (const auto& r : rows) names.push_back(r.name);
      const std::string near = nearest(type->text, names);
      context.problems->add(Diagnostic{type->where, fmt::format("there is no transform '{}'", type->text),
                                       near.empty() ? fmt::format("transforms: {}", fmt::join(names, ", "))
                                                    : fmt::format("did you mean '{}'?", near)});
      continue;
    }
    TransformSpec spec = row->read(t, recipe.size, context);
    if (spec.size.width > 0) recipe.size.width = spec.size.width, recipe.size.height = spec.size.height;
    if (spec.size.channels > 0) recipe.size.channels = spec.size.channels;
    if (spec.make) recipe.steps.push_back(spec.make);
    recipe.channels_first = recipe.channels_first || spec.transpose;
    recipe.ten_views = recipe.ten_views || spec.ten_views;
    o.chain.push_back(std::move(spec));
  }
  if (recipe.size.width == 0)
    context.problems->add(
        Diagnostic{block.where(), "no transform gives the images their size",
                   "add [ type = \"Scale\" ; width = 32 ; height = 32 ; channels = 3 ] to transforms"});
  return recipe;
}

Made read_deserializer(ImageList::Kind kind, const char* name, const Record& block, const ReaderContext& context) {
  auto o = std::make_shared<ImageDeserializerOptions>();
  config::read_fields(block, name, [&](config::Fields& f) { o->describe(f); }, *context.problems, *context.notices,
                      {"type", "input"});
  forget_inherited_loaders(block, o->files);
  check_list(block, o->files.file, kind == ImageList::Kind::map, context);
  const auto describe = [o](config::Fields& f) { o->describe_with_streams(f); };
  if (!block.has_own("input") || !block.is_block("input")) {
    context.problems->add(Diagnostic{block.where(), fmt::format("{} has no streams", name),
                                     "add input = [ features = [ transforms = (...) ] ; labels = [ labelDim = 10 ] ]"});
    return {describe, {}, {}};
  }
  const Record input = block.block("input");
  const auto features = block_with(input, {"transforms"}, "images", context);
  const auto labels = block_with(input, {"labelDim"}, "labels", context);
  if (!features || !labels) return {describe, {}, {}};
  o->names = {*features, *labels};
  for (const std::string& key : input.keys())
    if (key != *features && key != *labels)
      context.problems->add(Diagnostic{input.where(), fmt::format("{} has no stream '{}'", name, key),
                                       "one stream has transforms, the other labelDim"});
  config::read_fields(input.block(*features), "features", [](config::Fields&) {}, *context.problems, *context.notices,
                      {"transforms"});
  config::read_fields(
      input.block(*labels), "labels", [&](config::Fields& f) { o->labels.describe(f); }, *context.problems,
      *context.notices);
  Recipe recipe = read_chain(input.block(*features), *o, context);
  is_grayscale(o->files, recipe.size.channels, block, context);
  const auto seed = static_cast<std::uint64_t>(block.integer("randomizationSeed", 0));
  return {describe, source_of(kind, o->files, recipe, o->names, o->labels, seed), {}};
}

}  // namespace

void ImageFileOptions::describe(config::Fields& f) {
  f("file", file, "the map: lines of path<TAB>label or key<TAB>path<TAB>label; or a folder with one for each class");
  f.required("file");
  f.choice("grayscale", grayscale, yes_or_no(), "read images in grey; auto = when channels is 1");
  f.choice("checkData", check,
           {{"files", CheckData::files},
            {"images", CheckData::images},
            {"none", CheckData::none},
            {"true", CheckData::files},
            {"false", CheckData::none}},
           "before the first step: see that all files are there, or also decode every image, or nothing");
  f("maxErrors", max_errors, "number of broken images and faulty lines to tolerate; they are skipped");
  f("numCPUThreads", loaders, "threads that load images; 0 = cores that training leaves free; only in this block");
  f("precision", precision, "accepted; data are float32 either way");
  if (max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
  if (loaders < 0 || loaders > 1024) f.problem("numCPUThreads", "a number of threads, 0 to 1024", "0 = automatic");
}

void ImageFeatureOptions::describe(config::Fields& f) {
  scale.describe(f);
  crop.describe(f);
  color.describe(f);
  intensity.describe(f);
  mean.describe(f);
  f.choice("mbFormat", channels_first, {{"nchw", true}, {"cudnn", true}, {"nhwc", false}, {"legacy", false}},
           "order of a sample's numbers: nchw = width fastest, then height, then channel; nhwc = channel fastest");
}

Made read_image_reader(const Record& block, const ReaderContext& context) {
  auto o = std::make_shared<ImageReaderOptions>();
  o->order.shuffle = trains(context);
  const auto features = block_with(block, {"width", "height"}, "images", context);
  const auto labels = block_with(block, {"labelDim"}, "labels", context);
  if (features) o->names.features = *features;
  if (labels) o->names.labels = *labels;
  config::read_fields(block, "ImageReader", [&](config::Fields& f) { o->describe(f); }, *context.problems,
                      *context.notices, {"readerType"});
  forget_inherited_loaders(block, o->files);
  check_list(block, o->files.file, true, context);
  const auto describe = [o](config::Fields& f) { o->describe(f); };
  if (!features || !labels) return {describe, {}, {}};
  const Record stream = block.block(*features);
  const ImageFeatureOptions& of = o->features;
  Recipe recipe;
  recipe.size = of.scale.size();
  recipe.channels_first = of.channels_first;
  recipe.ten_views = of.crop.settings.type == CropType::multiview10;
  recipe.steps.push_back([s = of.crop.settings] { return make_crop(s); });
  recipe.steps.push_back([s = of.scale.settings] { return make_scale(s); });
  if (!of.color.settings.nothing()) recipe.steps.push_back([s = of.color.settings] { return make_color(s); });
  if (auto make = intensity_of(of.intensity, stream, context)) recipe.steps.push_back(make);
  if (auto make = mean_of(of.mean, recipe.size, stream, context)) recipe.steps.push_back(make);
  is_grayscale(o->files, recipe.size.channels, block, context);
  return {
      describe,
      source_of(ImageList::Kind::map, o->files, recipe, o->names, o->labels, static_cast<std::uint64_t>(o->order.seed)),
      o->order.randomization()};
}

void describe_image_reader(config::Fields& f) { ImageReaderOptions().describe(f); }
void describe_image_deserializer(config::Fields& f) {
  ImageDeserializerOptions o;
  for (const auto& row : transform_table()) {
    TransformSpec spec;
    spec.type = row.name;
    spec.describe = row.describe;
    o.chain.push_back(std::move(spec));
  }
  o.describe_with_streams(f);
}

Made read_image_deserializer(const Record& block, const ReaderContext& context) {
  return read_deserializer(ImageList::Kind::map, "ImageDeserializer", block, context);
}
Made read_base64_deserializer(const Record& block, const ReaderContext& context) {
  return read_deserializer(ImageList::Kind::base64, "Base64ImageDeserializer", block, context);
}

}  // namespace tutti::reader
