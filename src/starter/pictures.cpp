// SPDX-License-Identifier: Apache-2.0
// IDX files, and images in folders or maps. Of images only the first bytes are read.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ranges>

#include "base/trimmed.h"
#include "starter/kinds.h"
#include "tutti/error.h"

namespace tutti::starter {
namespace {

namespace fs = std::filesystem;

// ---- IDX

struct CloseGz {
  void operator()(gzFile_s* f) const { gzclose(f); }
};

struct IdxFile {
  std::vector<std::int64_t> axes;
  int largest = 0;  // of single bytes
};

IdxFile read_idx(const std::string& path, bool values) {
  const std::unique_ptr<gzFile_s, CloseGz> in(gzopen(path.c_str(), "rb"));
  std::array<unsigned char, 4> head{};
  const auto fail = [&](const char* what) { fail_at(path, 0, what, "an IDX file as those of MNIST, plain or gzip"); };
  if (!in || gzread(in.get(), head.data(), 4) != 4 || head[0] != 0 || head[1] != 0 || head[3] == 0 || head[3] > 8)
    fail("this is no IDX file");
  IdxFile file;
  for (int a = 0; a < head[3]; ++a) {
    std::array<unsigned char, 4> n{};
    if (gzread(in.get(), n.data(), 4) != 4) fail("the file ends within its head");
    file.axes.push_back(std::int64_t{n[0]} << 24 | n[1] << 16 | n[2] << 8 | n[3]);
  }
  if (!values) return file;
  if (head[2] != 8) fail("labels must be bytes");
  std::array<unsigned char, 65536> part{};
  for (int n; (n = gzread(in.get(), part.data(), part.size())) > 0;)
    file.largest = std::max<int>(file.largest, *std::max_element(part.begin(), part.begin() + n));
  return file;
}

// "train-images-idx3-ubyte.gz" in the folder; empty if there is none.
std::string file_with(const std::string& folder, const std::string& begin) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(begin)) found.push_back(entry.path().string());
  std::ranges::sort(found);
  return found.empty() ? "" : found[0];
}

constexpr const char* kTwoClasses = "number the classes from 0; there must be two or more";

struct IdxData {
  std::string images, labels;  // files; empty if the folder has not both
  std::vector<std::int64_t> axes;
  int classes = 0;
};

// train-images... and train-labels..., or t10k-images... and t10k-labels...
IdxData look_at_pair(const std::string& folder, const std::string& begin) {
  if (!fs::is_directory(folder))
    throw Error(fmt::format("new: '{}' is no folder\nfix: name the folder of {}-images-idx3-ubyte.gz and its labels",
                            folder, begin));
  IdxData data;
  data.images = file_with(folder, begin + "-images"), data.labels = file_with(folder, begin + "-labels");
  if (data.images.empty() || data.labels.empty()) return {};
  data.axes = read_idx(data.images, false).axes;
  const IdxFile l = read_idx(data.labels, true);
  if (l.axes.size() != 1) fail_at(data.labels, 0, "a label is more than one byte", "write the number of the class");
  if (l.axes[0] != data.axes[0])
    fail_at(data.labels, 0, fmt::format("{} labels for {} images", l.axes[0], data.axes[0]),
            "the files do not belong together");
  data.classes = l.largest + 1;
  return data;
}

// The data to test on, if there are any.
IdxData look_at_idx_test(const Request& request, const IdxData& train) {
  const std::string& folder = request.test.empty() ? request.train : request.test;
  const IdxData test = look_at_pair(folder, "t10k");
  if (test.images.empty()) {
    if (request.test.empty()) return {};
    throw Error(fmt::format(
        "new: '{}' has no files t10k-images... and t10k-labels...\nfix: name the folder that has them", folder));
  }
  if (!std::ranges::equal(test.axes | std::views::drop(1), train.axes | std::views::drop(1)))
    fail_at(test.images, 0, fmt::format("its samples are of another size than those of '{}'", train.images),
            "test on samples of the same size");
  if (test.classes > train.classes)
    fail_at(test.labels, 0,
            fmt::format("there is a label {}, and those of '{}' end at {}", test.classes - 1, train.labels,
                        train.classes - 1),
            "test on the classes that were trained");
  return test;
}

constexpr const char* kConvolutions = R"(features = Input {(@WIDTH@:@HEIGHT@:@CHANNELS@)}    # width, height, channels
labels   = Input {@CLASSES@}

x = @SCALED@
model = Sequential (
    ConvolutionalLayer {16, (3:3), pad = true, init = 'heNormal', activation = ReLU} :
    MaxPoolingLayer {(2:2), stride = 2} :
    ConvolutionalLayer {32, (3:3), pad = true, init = 'heNormal', activation = ReLU} :
    MaxPoolingLayer {(2:2), stride = 2} :
    DenseLayer {128, init = 'heNormal', activation = ReLU} :
    Dropout :
    LinearLayer {@CLASSES@})
z = model (x)

ce   = CrossEntropyWithSoftmax (labels, z)    # what is minimised
errs = ClassificationError (labels, z)        # the share of wrong answers
criterionNodes  = (ce)
evaluationNodes = (errs)
outputNodes     = (z))";

constexpr const char* kDense = R"(features = Input {@DIM@}
labels   = Input {@CLASSES@}

model = Sequential (
    DenseLayer {200, activation = ReLU, init = 'heUniform'} :
    DenseLayer {200, activation = ReLU, init = 'heUniform'} :
    LinearLayer {@CLASSES@})
z = model (features)

ce   = CrossEntropyWithSoftmax (labels, z)    # what is minimised
errs = ClassificationError (labels, z)        # the share of wrong answers
criterionNodes  = (ce)
evaluationNodes = (errs)
outputNodes     = (z))";

std::string sgd_of(std::int64_t samples, bool dropout) {
  const std::int64_t minibatch = samples < 2000 ? 16 : 64, epochs = epochs_for(5000, samples, minibatch);
  return fmt::format(
      "maxEpochs = {}\nminibatchSize = {}             # images of a step, over all ranks\ngradUpdateType = "
      "\"adam\"\nlearningRatesPerMB = 0.001*{}:0.0003{}",
      epochs, minibatch, std::max<std::int64_t>(epochs * 2 / 3, 1), dropout ? "\ndropoutRate = 0.3" : "");
}

// ---- images

struct ImageSize {
  std::int64_t width = 0, height = 0;
  int channels = 3;
};

// Of a PNG or JPEG, from its head; no size if it is neither.
ImageSize size_of_image(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<unsigned char, 26> head{};
  const auto read = [&](std::int64_t at, int bytes) -> bool {
    return in.seekg(at) && in.read(reinterpret_cast<char*>(head.data()), bytes);
  };
  const auto number = [&](std::size_t at, int bytes) {
    std::int64_t n = 0;
    for (int i = 0; i < bytes; ++i) n = n << 8 | head[at + static_cast<std::size_t>(i)];
    return n;
  };
  if (!read(0, 26)) return {};
  if (std::memcmp(head.data(), "\x89PNG", 4) == 0)
    return {number(16, 4), number(20, 4), head[25] == 0 || head[25] == 4 ? 1 : 3};
  if (head[0] != 0xff || head[1] != 0xd8) return {};
  // Segments of any length, such as color profiles, precede the frame header.
  for (std::int64_t at = 2; read(at, 10) && head[0] == 0xff; at += head[1] == 0xff ? 1 : 2 + number(2, 2)) {
    const int marker = head[1];
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc)
      return {number(7, 2), number(5, 2), head[9] == 1 ? 1 : 3};
  }
  return {};
}

struct SomeImage {
  std::string path, named_at;  // "map.txt:3", or the path
};

struct ImageSet {
  bool folder = false;
  std::vector<std::string> names;  // of a folder's classes
  std::int64_t images = 0, classes = 0;
  std::int64_t last_class_line = 0;  // of a map, where its largest label stands
  std::vector<SomeImage> some;
};

constexpr std::size_t kSome = 50;
constexpr std::int64_t kMostImageClasses = 100'000;

// What ImageReader finds in a folder (reader/image/image_list.cpp).
std::vector<std::string> names_in(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && entry.is_directory() == folders) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

ImageSet look_into_folder(const std::string& folder) {
  ImageSet set;
  set.folder = true, set.names = names_in(folder, true);
  if (set.names.size() < 2)
    fail_at(
        folder, 0,
        fmt::format("{} folder{} in it, and each class needs one", set.names.size(), set.names.size() == 1 ? "" : "s"),
        fmt::format("{0}/cats/1.png, {0}/dogs/2.png; or name a map file with lines of path<TAB>label", folder));
  set.classes = static_cast<std::int64_t>(set.names.size());
  for (const std::string& name : set.names) {
    const fs::path here = fs::path(folder) / name;
    if (const auto inner = names_in(here, true); !inner.empty())
      fail_at((here / inner[0]).string(), 0, "a folder inside of a class, whose images would not be read",
              fmt::format("move its images to '{}', or name a map file with lines of path<TAB>label", here.string()));
    const auto images = names_in(here, false);
    set.images += static_cast<std::int64_t>(images.size());
    for (const std::string& image : images | std::views::take(std::max<std::size_t>(kSome / set.names.size(), 1)))
      set.some.push_back({(here / image).string(), (here / image).string()});
  }
  if (set.images == 0) fail_at(folder, 0, "there are no images in its folders", "PNG or JPEG files in each of them");
  return set;
}

// The path and the class in a line of path<TAB>label or key<TAB>path<TAB>label.
std::pair<std::string_view, std::int64_t> read_map_line(std::string_view line, const std::string& path,
                                                        std::int64_t number) {
  const auto tab = line.rfind('\t');
  if (tab == line.npos)
    fail_at(path, number, "no path<TAB>label", "write the image's path, a tab, and its class from 0");
  const std::string_view label = trimmed(line.substr(tab + 1));
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  if (error != std::errc() || end != label.data() + label.size() || value < 0 || value >= kMostImageClasses)
    fail_at(path, number, fmt::format("the label '{}' is no class from 0 to {}", label, kMostImageClasses - 1),
            "number the classes from 0, without gaps");
  line = line.substr(0, tab);
  if (const auto key = line.find('\t'); key != line.npos) line = line.substr(key + 1);
  return {line, value};
}

ImageSet look_into_map(const std::string& path) {
  ImageSet set;
  each_line(path, [&](std::string_view line, std::int64_t number) {
    if (trimmed(line).empty()) return;
    const auto [image, label] = read_map_line(line, path, number);
    if (label >= set.classes) set.classes = label + 1, set.last_class_line = number;
    ++set.images;
    if (set.some.size() >= kSome || image.find(".zip@") != image.npos) return;
    const fs::path here = fs::path(path).parent_path();  // what "..." stands for
    set.some.push_back(
        {image.starts_with("...") ? (here / fs::path(image.substr(3)).relative_path()).string() : std::string(image),
         fmt::format("{}:{}", path, number)});
  });
  if (set.images == 0) fail_at(path, 0, "the map is empty", "lines of path<TAB>label");
  return set;
}

ImageSet look_into(const std::string& path) {
  return fs::is_directory(path) ? look_into_folder(path) : look_into_map(path);
}

// Class numbers must mean the same in both.
void check_classes(const ImageSet& train, const ImageSet& test, const Request& r) {
  if (train.folder != test.folder)
    fail_at(r.test, 0,
            fmt::format("this is a {0}, and '{2}' is a {1}", test.folder ? "folder" : "map",
                        train.folder ? "folder" : "map", r.train),
            "test on a folder if the training data are one, and on a map file if they are one");
  for (const std::string& name : train.names)
    if (!std::ranges::binary_search(test.names, name))
      fail_at(r.test, 0, fmt::format("there is no folder '{}' in it, as in '{}'", name, r.train),
              "make it, without images if there are none: the classes are numbered in the order of the folders");
  for (const std::string& name : test.names)
    if (!std::ranges::binary_search(train.names, name))
      fail_at(r.test, 0, fmt::format("its folder '{}' is none of the classes of '{}'", name, r.train),
              "remove it, or train on this class too");
  if (test.classes > train.classes)
    fail_at(
        r.test, test.last_class_line,
        fmt::format("there is a label {}, and those of '{}' end at {}", test.classes - 1, r.train, train.classes - 1),
        "test on the classes that were trained");
}

constexpr std::int64_t kLeastPixels = 12;  // for two convolutions with pooling

// One size for all: theirs, if they have one that is neither large nor tiny, else a small one that they are scaled to.
struct CommonSize : ImageSize {
  bool alike = true;   // the images have this size
  bool square = true;  // each of them is square
};
CommonSize common_size(const ImageSet& set) {
  CommonSize common;
  for (const auto& [path, named_at] : set.some) {
    if (!fs::exists(path))
      fail_at(named_at, 0, fmt::format("there is no image '{}'", path),
              "correct the path; '...' at its start is the folder of the map");
    const ImageSize s = size_of_image(path);
    if (s.width <= 0 || s.height <= 0)
      fail_at(named_at, 0, fmt::format("'{}' is neither a PNG nor a JPEG image", path), "convert or remove it");
    common.alike = common.alike && (common.width == 0 || (common.width == s.width && common.height == s.height));
    common.square = common.square && s.width == s.height;
    if (common.width == 0) common.width = s.width, common.height = s.height, common.channels = s.channels;
    common.channels = std::max(common.channels, s.channels);
  }
  if (set.some.empty()) common.square = false;
  const auto [least, most] = std::minmax(common.width, common.height);
  if (!common.alike || most > 64 || least < kLeastPixels) common.width = common.height = 32, common.alike = false;
  return common;
}

// Crops are square: images of another shape are taken whole, as a crop would miss their ends.
std::string image_reader(const std::string& file, const CommonSize& size, std::int64_t classes, bool trains) {
  const char* crop = !size.square ? " ]"
                     : trains     ? " ; cropType = \"randomside\" ; sideRatio = 0.9 ; hflip = false ]"
                                  : " ; cropType = \"center\" ; sideRatio = 0.9 ]    # trainer predict: --crop 0.9";
  return fmt::format(
      "readerType = \"ImageReader\"\nfile = \"{}\"\nfeatures = [ width = {} ; height = {} ; channels = {}{}\n"
      "labels   = [ labelDim = {} ]",
      file, size.width, size.height, size.channels, crop, classes);
}

}  // namespace

Starter look_at_idx(const Request& request) {
  const IdxData train = look_at_pair(request.train, "train");
  if (train.images.empty())
    throw Error(fmt::format(
        "new: '{}' has no files train-images... and train-labels...\nfix: scripts/get_mnist.sh fetches MNIST",
        request.train));
  if (train.classes < 2) fail_at(train.labels, 0, "all labels are 0", kTwoClasses);
  const IdxData test = look_at_idx_test(request, train);
  const std::vector<std::int64_t>& axes = train.axes;
  const std::int64_t samples = axes[0];
  const int classes = train.classes;
  std::int64_t dim = 1;
  for (std::size_t a = 1; a < axes.size(); ++a) dim *= axes[a];
  const bool picture = axes.size() == 3 && axes[1] >= kLeastPixels && axes[2] >= kLeastPixels;
  const auto reader = [&](const IdxData& data) {
    return fmt::format(
        "readerType = \"IDXReader\"          # bytes become numbers from 0 to 1\nfeatures = [ file = \"{}\" ]\nlabels  "
        " = [ file = \"{}\" ; labelDim = {} ]",
        data.images, data.labels, classes);
  };
  Starter s;
  s.found = picture ? fmt::format("{} images of {} x {} pixels, {} classes", samples, axes[2], axes[1], classes)
                    : fmt::format("{} samples of {} numbers, {} classes", samples, dim, classes);
  s.network = filled(picture ? kConvolutions : kDense, {{"WIDTH", std::to_string(picture ? axes[2] : 0)},
                                                        {"HEIGHT", std::to_string(picture ? axes[1] : 0)},
                                                        {"CHANNELS", "1"},
                                                        {"CLASSES", std::to_string(classes)},
                                                        {"SCALED", "features"},
                                                        {"DIM", std::to_string(dim)}});
  s.sgd = sgd_of(samples, picture);
  s.train_reader = reader(train);
  if (!test.images.empty()) s.test_reader = reader(test);
  return s;
}

Starter look_at_images(const Request& request) {
  const ImageSet set = look_into(request.train);
  if (set.classes < 2) fail_at(request.train, 0, "all labels are 0", kTwoClasses);
  const CommonSize size = common_size(set);
  Starter s;
  s.found = fmt::format("{} images of {} classes, {} {} x {} pixels", set.images, set.classes,
                        size.alike ? "of" : "scaled to", size.width, size.height);
  if (set.folder && set.classes <= 20) {
    s.found += "; classes:";
    for (std::size_t c = 0; c < set.names.size(); ++c)
      s.found += fmt::format("{} {} {}", c ? "," : "", c, set.names[c]);
  }
  s.network =
      filled(kConvolutions, {{"WIDTH", std::to_string(size.width)},
                             {"HEIGHT", std::to_string(size.height)},
                             {"CHANNELS", std::to_string(size.channels)},
                             {"CLASSES", std::to_string(set.classes)},
                             {"SCALED", "(features - Constant {128}) .* Constant {0.0156}    # pixels are 0 to 255"}});
  s.sgd = sgd_of(set.images, true);
  s.train_reader = image_reader(request.train, size, set.classes, true);
  if (!request.test.empty()) {
    const ImageSet test = look_into(request.test);
    check_classes(set, test, request);
    common_size(test);  // refuses what is no image
    s.test_reader = image_reader(request.test, size, set.classes, false);
  }
  return s;
}

}  // namespace tutti::starter
