// SPDX-License-Identifier: Apache-2.0
// IDX files, and images in folders or maps. Of images only the first bytes are read.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

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
  const auto fail = [&](const char* what) {
    throw Error(fmt::format("{}: error: {}\nfix: an IDX file as those of MNIST, plain or gzip", path, what));
  };
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
std::string file_with(const std::string& folder, const char* begin) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(begin)) found.push_back(entry.path().string());
  std::ranges::sort(found);
  return found.empty() ? "" : found[0];
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

std::string sgd_of(std::int64_t samples) {
  const std::int64_t minibatch = samples < 2000 ? 16 : 64, epochs = epochs_for(5000, samples, minibatch);
  return fmt::format(
      "maxEpochs = {}\nminibatchSize = {}             # images of a step, over all ranks\ngradUpdateType = "
      "\"adam\"\nlearningRatesPerMB = 0.001*{}:0.0003\ndropoutRate = 0.3",
      epochs, minibatch, std::max<std::int64_t>(epochs * 2 / 3, 1));
}

// ---- images

struct ImageSize {
  std::int64_t width = 0, height = 0;
  int channels = 3;
};

// Of a PNG or JPEG, from its head; no size if it is neither.
ImageSize size_of_image(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<unsigned char> head(1 << 16);
  in.read(reinterpret_cast<char*>(head.data()), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  const auto number = [&](std::size_t at, int bytes) {
    std::int64_t n = 0;
    for (int i = 0; i < bytes && at + static_cast<std::size_t>(i) < head.size(); ++i)
      n = n << 8 | head[at + static_cast<std::size_t>(i)];
    return n;
  };
  if (head.size() > 26 && std::memcmp(head.data(), "\x89PNG", 4) == 0)
    return {number(16, 4), number(20, 4), head[25] == 0 || head[25] == 4 ? 1 : 3};
  if (head.size() < 4 || head[0] != 0xff || head[1] != 0xd8) return {};
  for (std::size_t at = 2; at + 9 < head.size() && head[at] == 0xff;) {
    const int marker = head[at + 1];
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc)
      return {number(at + 7, 2), number(at + 5, 2), head[at + 9] == 1 ? 1 : 3};
    at += 2 + static_cast<std::size_t>(number(at + 2, 2));
  }
  return {};
}

struct ImageSet {
  std::vector<std::string> classes;  // names of folders; of a map only their number counts
  std::int64_t images = 0;
  std::vector<std::string> some;  // paths
};

constexpr std::size_t kSome = 50;

ImageSet look_into_folder(const std::string& folder) {
  ImageSet set;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) set.classes.push_back(entry.path().filename().string());
  std::ranges::sort(set.classes);
  for (const std::string& name : set.classes) {
    std::size_t here = 0;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(folder) / name)) {
      if (!entry.is_regular_file()) continue;
      ++set.images;
      if (here++ < std::max<std::size_t>(kSome / set.classes.size(), 1)) set.some.push_back(entry.path().string());
    }
  }
  if (set.classes.size() < 2)
    throw Error(
        fmt::format("{}: error: {} folder{} in it, and each class needs one\nfix: {}/cats/1.png, {}/dogs/2.png; or "
                    "name a map file with lines of path<TAB>label",
                    folder, set.classes.size(), set.classes.size() == 1 ? "" : "s", folder, folder));
  return set;
}

ImageSet look_into_map(const std::string& path) {
  ImageSet set;
  std::set<std::int64_t> labels;
  each_line(path, [&](std::string_view line, std::int64_t number) {
    if (trimmed(line).empty()) return;
    const auto tab = line.rfind('\t');
    double label = 0;
    if (tab == line.npos || !as_number(line.substr(tab + 1), label) || label < 0)
      throw Error(fmt::format(
          "{}:{}: error: no path<TAB>label\nfix: write the image's path, a tab, and its class from 0", path, number));
    labels.insert(static_cast<std::int64_t>(label));
    ++set.images;
    std::string_view image = line.substr(0, tab);
    if (const auto key = image.rfind('\t'); key != image.npos) image = image.substr(key + 1);
    if (set.some.size() >= kSome || image.find(".zip@") != image.npos) return;
    const fs::path here = fs::path(path).parent_path();  // what "..." stands for
    set.some.push_back(image.starts_with("...") ? (here / fs::path(image.substr(3)).relative_path()).string()
                                                : std::string(image));
  });
  if (labels.empty()) throw Error(fmt::format("{}: error: the map is empty\nfix: lines of path<TAB>label", path));
  for (std::int64_t i = 0; i <= *labels.rbegin(); ++i) set.classes.push_back(std::to_string(i));
  return set;
}

// One size for all: theirs, if they have one that is small enough, else a small one that they are scaled to.
ImageSize common_size(const ImageSet& set, bool& alike) {
  ImageSize common;
  alike = true;
  for (const std::string& path : set.some) {
    const ImageSize s = size_of_image(path);
    if (s.width <= 0 || s.height <= 0)
      throw Error(fmt::format("{}: error: neither a PNG nor a JPEG image\nfix: convert or remove it", path));
    alike = alike && (common.width == 0 || (common.width == s.width && common.height == s.height));
    if (common.width == 0) common = s;
    common.channels = std::max(common.channels == 3 && &path != &set.some[0] ? 3 : s.channels, s.channels);
  }
  if (common.width == 0) common = {32, 32, 3}, alike = false;
  if (!alike || common.width > 64 || common.height > 64) common.width = common.height = 32, alike = false;
  return common;
}

std::string image_reader(const std::string& file, const ImageSize& size, std::size_t classes, bool trains) {
  return fmt::format(
      "readerType = \"ImageReader\"\nfile = \"{}\"\nfeatures = [ width = {} ; height = {} ; channels = {} ; {} "
      "]\nlabels   = [ labelDim = {} ]",
      file, size.width, size.height, size.channels,
      trains ? "cropType = \"randomside\" ; sideRatio = 0.9 ; hflip = false"
             : "cropType = \"center\" ; sideRatio = 0.9",
      classes);
}

}  // namespace

Starter look_at_idx(const Request& request) {
  if (!fs::is_directory(request.train))
    throw Error(fmt::format("new: '{}' is no folder\nfix: name the folder of train-images-idx3-ubyte.gz and its labels",
                            request.train));
  const std::string images = file_with(request.train, "train-images"),
                    labels = file_with(request.train, "train-labels");
  if (images.empty() || labels.empty())
    throw Error(fmt::format(
        "new: '{}' has no files train-images... and train-labels...\nfix: scripts/get_mnist.sh fetches MNIST",
        request.train));
  const IdxFile i = read_idx(images, false), l = read_idx(labels, true);
  const std::int64_t samples = i.axes[0];
  if (l.axes.size() != 1 || l.axes[0] != samples)
    throw Error(fmt::format("{}: error: {} labels for {} images\nfix: the files do not belong together", labels,
                            l.axes[0], samples));
  const int classes = l.largest + 1;
  std::int64_t dim = 1;
  for (std::size_t a = 1; a < i.axes.size(); ++a) dim *= i.axes[a];
  const bool picture = i.axes.size() == 3 && i.axes[1] >= 12 && i.axes[2] >= 12;
  const auto reader = [&](const std::string& x, const std::string& y) {
    return fmt::format(
        "readerType = \"IDXReader\"          # bytes become numbers from 0 to 1\nfeatures = [ file = \"{}\" ]\nlabels  "
        " = [ file = \"{}\" ; labelDim = {} ]",
        x, y, classes);
  };
  Starter s;
  s.found = picture ? fmt::format("{} images of {} x {} pixels, {} classes", samples, i.axes[2], i.axes[1], classes)
                    : fmt::format("{} samples of {} numbers, {} classes", samples, dim, classes);
  s.network = filled(picture ? kConvolutions : kDense, {{"WIDTH", std::to_string(picture ? i.axes[2] : 0)},
                                                        {"HEIGHT", std::to_string(picture ? i.axes[1] : 0)},
                                                        {"CHANNELS", "1"},
                                                        {"CLASSES", std::to_string(classes)},
                                                        {"SCALED", "features"},
                                                        {"DIM", std::to_string(dim)}});
  s.sgd = sgd_of(samples);
  s.train_reader = reader(images, labels);
  const std::string& folder = request.test.empty() ? request.train : request.test;
  const std::string test_images = file_with(folder, "t10k-images"), test_labels = file_with(folder, "t10k-labels");
  if (!test_images.empty() && !test_labels.empty()) s.test_reader = reader(test_images, test_labels);
  return s;
}

Starter look_at_images(const Request& request) {
  const ImageSet set = fs::is_directory(request.train) ? look_into_folder(request.train) : look_into_map(request.train);
  bool alike = false;
  const ImageSize size = common_size(set, alike);
  Starter s;
  s.found = fmt::format("{} images of {} classes, {} {} x {} pixels", set.images, set.classes.size(),
                        alike ? "of" : "scaled to", size.width, size.height);
  if (fs::is_directory(request.train) && set.classes.size() <= 20) {
    s.found += "; classes:";
    for (std::size_t c = 0; c < set.classes.size(); ++c)
      s.found += fmt::format("{} {} {}", c ? "," : "", c, set.classes[c]);
  }
  s.network =
      filled(kConvolutions, {{"WIDTH", std::to_string(size.width)},
                             {"HEIGHT", std::to_string(size.height)},
                             {"CHANNELS", std::to_string(size.channels)},
                             {"CLASSES", std::to_string(set.classes.size())},
                             {"SCALED", "(features - Constant {128}) .* Constant {0.0156}    # pixels are 0 to 255"}});
  s.sgd = sgd_of(set.images);
  s.train_reader = image_reader(request.train, size, set.classes.size(), true);
  if (!request.test.empty()) s.test_reader = image_reader(request.test, size, set.classes.size(), false);
  return s;
}

}  // namespace tutti::starter
