// SPDX-License-Identifier: Apache-2.0
#include "actions/predict_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "actions/npy_reader.h"
#include "config/load.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

namespace fs = std::filesystem;

enum class InputKind { images, ctf, npy };

std::string lower_extension(const std::string& path) {
  std::string e = fs::path(path).extension().string();
  std::ranges::transform(e, e.begin(), [](unsigned char c) { return std::tolower(c); });
  return e;
}

bool is_image(const std::string& path) {
  static const std::set<std::string> endings = {".png", ".jpg", ".jpeg"};
  return endings.contains(lower_extension(path));
}

// "stream=file" or a file. A file may have '=' in its name if it exists.
struct NamedFile {
  std::string stream, file;
};
NamedFile named_file(const std::string& word) {
  std::error_code ignored;
  const std::size_t equals = word.find('=');
  if (equals == word.npos || fs::exists(word, ignored)) return {"", word};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

InputKind kind_of_input(const NamedFile& input) {
  std::error_code ignored;
  if (!fs::exists(input.file, ignored))
    throw Error(fmt::format("there is no input '{}'\nfix: --input FILE, or --input INPUT=FILE", input.file));
  if (fs::is_directory(input.file, ignored) || is_image(input.file)) return InputKind::images;
  return lower_extension(input.file) == ".npy" ? InputKind::npy : InputKind::ctf;
}

std::string quoted_setting(const std::string& text) {
  if (text.find('"') != text.npos)
    throw Error(fmt::format("the path '{}' has a quote in its name\nfix: rename the file", text));
  return '"' + text + '"';
}

std::unique_ptr<Reader> reader_of_block(const std::string& block) {
  Problems problems;
  config::Notices notices;
  ReaderContext context;
  context.action = "write", context.problems = &problems, context.notices = &notices;
  auto reader = make_reader(config::record_from_text(block, "<input of predict>"), context);
  problems.throw_if_any();
  reader->sweep_samples();  // formats that need it are read through once
  return reader;
}

// A file in a folder of its own that is removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::string pattern = (fs::temp_directory_path() / "tutti-predict-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      throw Error(fmt::format("creating a folder in '{}': {}\nfix: set TMPDIR to a writable folder", pattern,
                              std::strerror(errno)));
    folder_ = pattern;
    std::ofstream(path()) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_ + "/map.txt"; }

 private:
  std::string folder_;
};

std::vector<std::string> image_files(const std::vector<NamedFile>& inputs) {
  std::vector<std::string> files;
  for (const NamedFile& input : inputs) {
    if (!fs::is_directory(input.file)) {
      files.push_back(input.file);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::recursive_directory_iterator(input.file))
      if (entry.is_regular_file() && is_image(entry.path().string())) inside.push_back(entry.path().string());
    if (inside.empty())
      throw Error(fmt::format("the folder '{}' has no images\nfix: PNG and JPEG files are read", input.file));
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

// In the order of memory: width fastest, or the channels, as networks of CNTK's older layout have them.
struct ImageSize {
  std::size_t width = 0, height = 0, channels = 0;
  bool channels_first = false;
};

ImageSize image_size(const CommandWords& words, const Network::Input& input) {
  Shape shape = input.shape;
  if (words.has("--size")) {
    shape = Shape{};
    std::stringstream in(words.value("--size"));
    for (std::size_t d = 0; in >> d; in.ignore()) shape.dims.push_back(d);
    if (shape.elements() != input.shape.elements() || shape.rank() != 3)
      throw ConfigError({},
                        fmt::format("--size {} does not make the {} values of the input '{}'", words.value("--size"),
                                    input.shape.elements(), input.name),
                        "WIDTH:HEIGHT:CHANNELS");
  }
  const auto is_count = [](std::size_t channels) { return channels == 1 || channels == 3; };
  if (shape.rank() >= 2 && is_count(shape[2])) return {shape[0], shape[1], shape[2], false};
  if (shape.rank() == 3 && is_count(shape[0])) return {shape[1], shape[2], shape[0], true};
  throw Error(
      fmt::format("the input '{}' {} is no image, which is [width x height x 1 or 3]\nfix: --size "
                  "WIDTH:HEIGHT:CHANNELS says how its values lie",
                  input.name, to_string(shape)));
}

// --scale: a number, or a fraction such as 1/255.
double scale_factor(const CommandWords& words) {
  const std::string text = words.value("--scale", "1");
  std::istringstream in(text);
  double over = 0, under = 1;
  char slash = '/';
  in >> over;
  if (in && !in.eof()) in >> slash >> under;
  const double factor = over / under;
  if (!in || slash != '/' || !(in >> std::ws).eof() || !std::isfinite(factor) || factor == 0)
    throw ConfigError({}, fmt::format("--scale '{}' is no factor", text), "a number, or a fraction: --scale 1/255");
  return factor;
}

// The images that the temporary list names, in its order.
struct ImageFiles {
  std::string list;
  std::vector<std::string> files;
  // Calls `read`. Errors name the file of the image, not the line of the list, which the user does not know.
  template <class Read>
  auto name_in_errors(const Read& read) const {
    try {
      return read();
    } catch (const ConfigError& e) {
      for (const Diagnostic& d : e.diagnostics())
        if (d.where.source && d.where.source->name == list)
          throw Error(fmt::format("'{}': {}\nfix: replace the image, or leave it out of --input",
                                  files.at(d.where.source->first_line - 1), d.message));
      throw;
    }
  }
};

// The images of --input, whose values are multiplied by a factor. Errors name the file of an image.
class GivenImages final : public Reader {
 public:
  GivenImages(std::unique_ptr<Reader> images, ImageFiles files, std::size_t stream, double factor)
      : images_(std::move(images)), files_(std::move(files)), stream_(stream), factor_(static_cast<float>(factor)) {}
  const std::vector<StreamInfo>& streams() const override { return images_->streams(); }
  std::int64_t sweep_samples() override { return images_->sweep_samples(); }
  void start_epoch(const EpochPlan& plan) override { images_->start_epoch(plan); }
  std::string place(std::uint32_t sequence) override { return images_->place(sequence); }
  bool takes_work_units() const override { return images_->takes_work_units(); }

  const Batch* next() override {
    const Batch* const batch = files_.name_in_errors([&] { return images_->next(); });
    if (!batch || factor_ == 1) return batch;
    batch_ = *batch;
    StreamData& pixels = batch_.streams.at(stream_);
    values_.assign(pixels.dense.begin(), pixels.dense.end());
    for (float& v : values_) v *= factor_;
    pixels.dense = values_;
    return &batch_;
  }

 private:
  std::unique_ptr<Reader> images_;
  ImageFiles files_;
  std::size_t stream_;
  float factor_;
  std::vector<float> values_;
  Batch batch_;
};

PredictInput open_images(const CommandWords& words, const std::vector<NamedFile>& given,
                         const std::vector<Network::Input>& inputs) {
  if (inputs.size() != 1)
    throw Error(fmt::format("the network has {} inputs, images are one\nfix: --input CTF-file", inputs.size()));
  const ImageSize size = image_size(words, inputs[0]);
  const double factor = scale_factor(words);
  PredictInput input;
  input.files = image_files(given);
  std::string map;
  for (const std::string& file : input.files) {
    if (file.find_first_of("\t\n") != file.npos)
      throw Error(fmt::format("'{}' has a tab or line break in its name\nfix: rename the file", file));
    map += fmt::format("{}\t0\n", fs::absolute(file).string());
  }
  const auto list = std::make_shared<TemporaryFile>(map);
  std::string features = fmt::format("width = {}; height = {}; channels = {}; mbFormat = \"{}\"", size.width,
                                     size.height, size.channels, size.channels_first ? "nhwc" : "nchw");
  if (words.has("--crop")) features += fmt::format("; cropType = \"center\"; sideRatio = {}", words.value("--crop"));
  if (words.has("--mean")) features += fmt::format("; meanFile = {}", quoted_setting(words.value("--mean")));
  const ImageFiles listed{list->path(), input.files};
  auto images = listed.name_in_errors([&] {
    return reader_of_block(fmt::format(
        "readerType = \"ImageReader\"\nfile = {}\nrandomize = false\n{} = [ {} ]\npredictNoLabels = [ labelDim = 1 ]",
        quoted_setting(list->path()), inputs[0].name, features));
  });
  const auto& streams = images->streams();
  const auto at = std::ranges::find(streams, inputs[0].name, &StreamInfo::name) - streams.begin();
  input.reader = std::make_unique<GivenImages>(std::move(images), listed, static_cast<std::size_t>(at), factor);
  input.kept = list;
  return input;
}

// Streams of the file that have other names than the network's inputs: --map query=S0,labels=S2.
std::map<std::string, std::string> stream_names(const CommandWords& words, const graph::Graph& graph,
                                                const std::vector<Network::Input>& inputs) {
  std::map<std::string, std::string> names;
  for (const std::string& pair : listed_names(words.value("--map"))) {
    const std::size_t equals = pair.find('=');
    const std::string input = pair.substr(0, equals);
    if (equals == pair.npos || std::ranges::find(inputs, input, &Network::Input::name) == inputs.end()) {
      std::vector<std::string> all;
      for (const auto& i : inputs) all.push_back(i.name);
      const bool of_network = std::ranges::any_of(
          graph.nodes, [&](const graph::Node& n) { return n.name == input && n.operation == "InputValue"; });
      throw ConfigError({},
                        of_network ? fmt::format("--map: the predicted node does not need the input '{}'", input)
                                   : fmt::format("--map: '{}' names no input of the network", pair),
                        fmt::format("--map INPUT=STREAM,...; inputs: {}", fmt::join(all, ", ")));
    }
    names[input] = pair.substr(equals + 1);
  }
  return names;
}

// Of the first line in CTF that has any.
std::vector<std::string> streams_of_file(const std::string& path) {
  std::vector<std::string> names;
  std::ifstream in(path);
  for (std::string line; names.empty() && std::getline(in, line);)
    for (auto at = line.find('|'); at != line.npos; at = line.find('|', at + 1))
      if (const auto end = line.find_first_of(" \t\r|", at + 1); at + 1 < line.size() && line[at + 1] != '#')
        names.push_back(line.substr(at + 1, end == line.npos ? end : end - at - 1));
  return names;
}

// A file that has none of the streams is one error; the reader would report every line.
void require_one_of(const std::vector<std::pair<std::string, std::string>>& wanted, const std::string& path) {
  const auto there = streams_of_file(path);
  if (there.empty() || wanted.empty()) return;
  for (const auto& [input, stream] : wanted)
    if (std::ranges::count(there, stream) > 0) return;
  const auto& [input, stream] = wanted.front();
  throw ConfigError({},
                    fmt::format("'{}' has no stream '{}' for the network's input '{}'; it has {}", path, stream, input,
                                fmt::join(there, ", ")),
                    fmt::format("--map {}={} or another of them", input, there.front()));
}

PredictInput open_ctf(const CommandWords& words, const graph::Graph& graph, const std::vector<NamedFile>& given,
                      const std::vector<Network::Input>& inputs) {
  if (given.size() != 1) throw Error(fmt::format("{} files in CTF are given\nfix: put them into one", given.size()));
  const auto names = stream_names(words, graph, inputs);
  std::string streams;
  std::vector<std::pair<std::string, std::string>> wanted;
  for (const auto& input : inputs) {
    const auto other = names.find(input.name);
    wanted.emplace_back(input.name, other == names.end() ? input.name : other->second);
    streams +=
        fmt::format("{} = [ alias = {}; dim = {}; format = \"{}\" ]\n", input.name,
                    quoted_setting(wanted.back().second), input.shape.elements(), input.sparse ? "sparse" : "dense");
  }
  require_one_of(wanted, given[0].file);
  PredictInput input;
  input.reader =
      reader_of_block(fmt::format("readerType = \"CNTKTextFormatReader\"\nfile = {}\nrandomize = false\ninput = [ {} ]",
                                  quoted_setting(given[0].file), streams));
  return input;
}

PredictInput open_npy(const std::vector<NamedFile>& given, const std::vector<Network::Input>& inputs, bool sequences) {
  std::vector<std::string> files, names;
  for (const auto& input : inputs) {
    if (input.sparse)
      throw Error(fmt::format("the input '{}' is sparse, and an array is not\nfix: give a file in CTF: |{} INDEX:1 ...",
                              input.name, input.name));
    names.push_back(input.name);
    const auto found = std::ranges::find_if(
        given, [&](const NamedFile& g) { return g.stream == input.name || (g.stream.empty() && inputs.size() == 1); });
    if (found != given.end()) files.push_back(found->file);
  }
  if (files.size() != inputs.size() || given.size() != inputs.size())
    throw Error(fmt::format("{} arrays are given for the inputs {}\nfix: --input {}=FILE.npy for each", given.size(),
                            fmt::join(names, ", "), fmt::join(names, "=FILE.npy --input ")));
  PredictInput input;
  input.reader = read_arrays(inputs, files, sequences);
  return input;
}

}  // namespace

std::vector<CommandOption> input_options() {
  return {{"--input", "FILE", "PNG or JPEG images, a folder of them, a file in CTF, or INPUT=FILE.npy", true},
          {"--map", "INPUT=STREAM,...", "CTF: streams that have other names than the network's inputs"},
          {"--size", "W:H:C", "images: the network's input as an image, where it is declared as a vector"},
          {"--mean", "FILE", "images: the mean image that training subtracted (meanFile)"},
          {"--scale", "FACTOR", "images: multiplies the pixels, such as 1/255 for a network that is trained on 0 to 1"},
          {"--crop", "RATIO", "images: center crop, as a part of the shorter side (sideRatio)"}};
}

PredictInput open_input(const CommandWords& words, const graph::Graph& graph, const std::vector<Network::Input>& inputs,
                        bool sequences) {
  std::vector<NamedFile> given;
  for (const std::string& word : words.values("--input")) given.push_back(named_file(word));
  if (given.empty()) throw ConfigError({}, "'predict' is given no input", "--input FILE");
  for (const NamedFile& g : given) refuse_same_file(g.file, words.value("--output", "-"));
  const InputKind kind = kind_of_input(given[0]);
  for (const NamedFile& g : given)
    if (kind_of_input(g) != kind)
      throw Error(fmt::format("'{}' and '{}' are of different kinds\nfix: predict them one after the other",
                              given[0].file, g.file));
  if (kind != InputKind::images)
    for (const char* option : {"--mean", "--scale", "--crop", "--size"})
      if (words.has(option)) throw ConfigError({}, fmt::format("{} is for images", option), "leave it out");
  if (kind != InputKind::ctf && words.has("--map")) throw ConfigError({}, "--map is for files in CTF", "leave it out");
  if (kind == InputKind::images) return open_images(words, given, inputs);
  return kind == InputKind::ctf ? open_ctf(words, graph, given, inputs) : open_npy(given, inputs, sequences);
}

}  // namespace tutti::actions
