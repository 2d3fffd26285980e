// SPDX-License-Identifier: Apache-2.0
// Blocks of ImageReader, whose features hold all transforms in a fixed order, and of the deserializers of images, which
// list them.
#include "reader/image/image_options.h"

#include <algorithm>
#include <filesystem>

namespace tutti::reader {
namespace {

using config::Record;

struct StreamNames {
  std::string features = "features", labels = "labels";
};

// The one block inside `block` that has one of these keys.
std::optional<std::string> block_with(const Record& block, const std::vector<std::string>& keys,
                                      const std::string& what, const ReaderContext& context) {
  std::vector<std::string> found;
  for (const std::string& name : block.keys()) {
    if (config::equal_keys(name, "input") || config::equal_keys(name, "transforms") || !block.has_own(name) ||
        !block.is_block(name))
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

void check_grayscale(const ImageFileOptions& o, std::int64_t channels, const Record& block,
                     const ReaderContext& context) {
  const bool grey = o.grayscale == Choice::automatic ? channels == 1 : o.grayscale == Choice::yes;
  if (grey != (channels == 1) && channels > 0)
    context.problems->add(
        Diagnostic{block.where(), fmt::format("grayscale = {}, but channels = {}", grey, channels),
                   grey ? "images in grey have channels = 1" : "leave grayscale out; channels = 1 means grey images"});
}

std::function<std::unique_ptr<SequenceSource>()> source_of(ImageList::Kind kind, const ImageFileOptions& o,
                                                           const Recipe& recipe, const StreamNames& names,
                                                           const LabelOptions& labels, std::uint64_t seed) {
  ImageSourceOptions s{o, recipe, kind};
  s.features = {names.features, static_cast<std::size_t>(recipe.size.numbers()), false};
  s.labels = {names.labels, static_cast<std::size_t>(labels.dim), labels.sparse};
  s.seed = seed;
  return [s] { return std::make_unique<ImageSource>(s); };
}

// The features of ImageReader: all transforms in one block.
struct ImageFeatureOptions {
  ScaleOptions scale;
  CropOptions crop;
  ColorOptions color;
  IntensityOptions intensity;
  MeanOptions mean;
  bool channels_first = true;
  void describe(config::Fields& f) {
    scale.describe(f);
    crop.describe(f);
    color.describe(f);
    intensity.describe(f);
    mean.describe(f);
    f.choice("mbFormat", channels_first, {{"nchw", true}, {"cudnn", true}, {"nhwc", false}, {"legacy", false}},
             "order of a sample's numbers: nchw = width fastest, then height, then channel; nhwc = channel fastest");
  }
};

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
  std::vector<std::pair<std::string, Described>> chain;
  LabelOptions labels;

  void describe(config::Fields& f) {
    files.describe(f);
    f.no_effect("verbosity", "the reader always names broken images and logs nothing else");
    f.no_effect("traceLevel", "the reader always names broken images and logs nothing else");
    f.no_effect("module", "all deserializers are built in");
    f.no_effect("multiViewCrop", "cropType = \"multiview10\" says it");
  }

  // For help and for the settings in effect.
  void describe_with_streams(config::Fields& f) {
    describe(f);
    Described input{[this](config::Fields& in) {
      Described features{[this](config::Fields& inner) {
        Described transforms{[this](config::Fields& list) {
          for (auto& [type, one] : chain) list.block(type, one, "");
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
    if (const TransformRow* row = find_row(transform_table(), type->text)) {
      o.chain.emplace_back(row->name, Described{row->read(t, recipe, context)});
    } else {
      context.problems->add(Diagnostic{type->where, fmt::format("there is no transform '{}'", type->text),
                                       other_names(transform_table(), "transforms", type->text)});
    }
  }
  if (recipe.size.width == 0)
    context.problems->add(
        Diagnostic{block.where(), "no transform gives the images their size",
                   "add [ type = \"Scale\" ; width = 32 ; height = 32 ; channels = 3 ] to transforms"});
  return recipe;
}

}  // namespace

Made read_images(const Record& block, const std::string& title, const ReaderContext& context) {
  const auto kind = title == "Base64ImageDeserializer" ? ImageList::Kind::base64 : ImageList::Kind::map;
  const auto o = new_options<ImageDeserializerOptions>(context);
  read_block(*o, block, title, context, {"type", "input"});
  forget_inherited_loaders(block, o->files);
  check_list(block, o->files.file, kind == ImageList::Kind::map, context);
  const auto describe = [o](config::Fields& f) { o->describe_with_streams(f); };
  if (!block.has_own("input") || !block.is_block("input")) {
    context.problems->add(Diagnostic{block.where(), fmt::format("{} has no streams", title),
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
      context.problems->add(Diagnostic{input.where(), fmt::format("{} has no stream '{}'", title, key),
                                       "one stream has transforms, the other labelDim"});
  Described nothing;
  read_block(nothing, input.block(*features), "features", context, {"transforms"});
  read_block(o->labels, input.block(*labels), "labels", context, {});
  const Recipe recipe = read_chain(input.block(*features), *o, context);
  check_grayscale(o->files, recipe.size.channels, block, context);
  const auto seed = static_cast<std::uint64_t>(block.integer("randomizationSeed", 0));
  return {describe, source_of(kind, o->files, recipe, o->names, o->labels, seed), {}};
}

void ImageFileOptions::describe(config::Fields& f) {
  f("file", file, "the map: lines of path<TAB>label or key<TAB>path<TAB>label; or a folder with one for each class");
  f.required("file");
  f.choice("grayscale", grayscale, yes_or_no, "read images in grey; auto = when channels is 1");
  f.choice("checkData", check,
           {{"files", CheckData::files},
            {"images", CheckData::images},
            {"none", CheckData::none},
            {"true", CheckData::files},
            {"false", CheckData::none}},
           "before the first step: see that all files are there, or also decode every image, or nothing");
  describe_max_errors(f, max_errors, "number of broken images and faulty lines to tolerate; they are skipped");
  f("numCPUThreads", loaders, "threads that load images; 0 = cores that training leaves free; only in this block");
  f("precision", precision, "accepted; data are float32 either way");
  if (loaders < 0 || loaders > 1024) f.problem("numCPUThreads", "a number of threads, 0 to 1024", "0 = automatic");
}

Made read_image_reader(const Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<ImageReaderOptions>(context);
  const auto features = block_with(block, {"width", "height"}, "images", context);
  const auto labels = block_with(block, {"labelDim"}, "labels", context);
  if (features) o->names.features = *features;
  if (labels) o->names.labels = *labels;
  read_block(*o, block, title, context);
  forget_inherited_loaders(block, o->files);
  check_list(block, o->files.file, true, context);
  const auto describe = [o](config::Fields& f) { o->describe(f); };
  if (!features || !labels) return {describe, {}, {}};
  const Record stream = block.block(*features);
  const ImageFeatureOptions& of = o->features;
  Recipe recipe;
  recipe.channels_first = of.channels_first;
  of.crop.add_to(recipe, stream, context);
  of.scale.add_to(recipe, stream, context);
  of.color.add_to(recipe, stream, context);
  of.intensity.add_to(recipe, stream, context);
  of.mean.add_to(recipe, stream, context);
  check_grayscale(o->files, recipe.size.channels, block, context);
  return {
      describe,
      source_of(ImageList::Kind::map, o->files, recipe, o->names, o->labels, static_cast<std::uint64_t>(o->order.seed)),
      o->order.randomization()};
}

void describe_image_reader(config::Fields& f) { ImageReaderOptions().describe(f); }
void describe_images(config::Fields& f) {
  ImageDeserializerOptions o;
  for (const auto& row : transform_table()) o.chain.emplace_back(row.name, Described{row.describe});
  o.describe_with_streams(f);
}

}  // namespace tutti::reader
