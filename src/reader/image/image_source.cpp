// SPDX-License-Identifier: Apache-2.0
// The prefetch thread distributes the images of its share to the loaders, of which it is one. Each writes to its own
// part of the share. Failures are handled afterwards, in order, so that messages do not depend on timing.
#include "reader/image/image_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "reader/default_loaders.h"

namespace tutti::reader {
namespace {

constexpr const char* broken_fix =
    "replace the file or remove the line; maxErrors is how many are tolerated, each left out of training";

}  // namespace

ImageSource::ImageSource(ImageSourceOptions options)
    : options_(std::move(options)),
      infos_{options_.features, options_.labels},
      views_(options_.ten_views ? 10 : 1),
      list_(options_.kind, options_.file),
      budget_(fmt::format("'{}'", options_.file), options_.max_errors, 1) {}

std::size_t ImageSource::wanted_loaders() const {
  return options_.loaders > 0 ? static_cast<std::size_t>(options_.loaders) : default_loaders();
}

const SequenceIndex& ImageSource::index() {
  if (index_) return *index_;
  list_.scan(static_cast<std::int64_t>(options_.labels.dim), budget_);
  if (!loaders_wanted_) loaders_wanted_ = wanted_loaders();
  if (options_.check == CheckData::files && options_.kind == ImageList::Kind::map)
    check_all([&](std::uint32_t image, std::size_t) {
      const std::string path = list_.file_of(list_.entry(image).image), why = files_.missing(path);
      return why.empty() ? why : fmt::format("the file '{}' cannot be read: {}", path, why);
    });
  if (options_.check == CheckData::images)
    check_all([&](std::uint32_t image, std::size_t loader) -> std::string {
      try {
        decode(image, *loaders_[loader]);
        return {};
      } catch (const std::exception& e) {
        return e.what();
      }
    });
  if (list_.size() > SequenceIndex::most_sequences / views_)
    throw Error(fmt::format("reading '{}': too many images", options_.file));
  index_ = SequenceIndex::uniform(list_.size() * views_);
  return *index_;
}

// On the training thread, which alone knows how many cores training uses.
void ImageSource::begin_epoch() {
  list_.begin_epoch();
  const std::size_t wanted = wanted_loaders();
  if (pool_ && pool_->size() != wanted) pool_.reset();
  loaders_wanted_ = wanted;
}

ThreadPool& ImageSource::pool() {
  if (!pool_) pool_ = std::make_unique<ThreadPool>(loaders_wanted_);
  while (loaders_.size() < pool_->size()) loaders_.push_back(std::make_unique<Loader>());
  return *pool_;
}

std::string ImageSource::place(std::uint32_t sequence) {
  return fmt::format("{}:{}", list_.path(), list_.line_of(image_of(sequence)));
}

// Checks every image, several at a time, and removes those with a `problem`.
void ImageSource::check_all(const std::function<std::string(std::uint32_t image, std::size_t loader)>& problem) {
  std::mutex mutex;
  std::map<std::uint32_t, std::string> problems;
  pool().run(list_.size(), [&](std::size_t i, std::size_t loader) {
    const auto image = static_cast<std::uint32_t>(i);
    std::string why = problem(image, loader);
    if (why.empty()) return;
    const std::lock_guard lock(mutex);
    problems[image] = std::move(why);
  });
  std::vector<std::uint32_t> faulty;
  for (const auto& [image, why] : problems) {
    budget_.fault(list_.diagnostic(image, why, broken_fix));
    faulty.push_back(image);
  }
  if (faulty.size() == list_.size())
    throw ConfigError({}, fmt::format("'{}' names no usable image", list_.path()), broken_fix);
  list_.remove(faulty);
}

Image ImageSource::decode(std::uint32_t image, Loader& loader) {
  const ImageList::Entry entry = list_.entry(image);
  Buffer<unsigned char>& file = loader.scratch.file;
  if (options_.kind == ImageList::Kind::base64) {
    decode_base64(entry.image, file);
  } else {
    files_.read(list_.file_of(entry.image), file);
  }
  return loader.decoder.decode(file.view(), options_.size.channels == 1, loader.scratch);
}

namespace {

template <class T>
void spread(const Image& image, float* to, bool channels_first) {
  const auto width = static_cast<std::size_t>(image.size.width), height = static_cast<std::size_t>(image.size.height),
             channels = static_cast<std::size_t>(image.size.channels), plane = width * height;
  for (std::size_t y = 0; y < height; ++y) {
    const T* from = image.row<T>(y);
    if (!channels_first || channels == 1) {
      std::copy_n(from, width * channels, to + y * width * channels);
      continue;
    }
    float* const at = to + y * width;
    if (channels == 3) {
      for (std::size_t x = 0; x < width; ++x) {
        at[x] = static_cast<float>(from[3 * x]);
        at[plane + x] = static_cast<float>(from[3 * x + 1]);
        at[2 * plane + x] = static_cast<float>(from[3 * x + 2]);
      }
      continue;
    }
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c) at[c * plane + x] = static_cast<float>(from[x * channels + c]);
  }
}

}  // namespace

std::string ImageSource::load(const Job& job, std::span<const std::uint32_t> sequences, float* to, Loader& loader) {
  try {
    const Image decoded = decode(job.image, loader);
    for (std::size_t i = 0; i < job.count; ++i) {
      const std::uint32_t sequence = sequences[job.first + i];
      Work work{CounterRandom(options_.seed + 0xD1B54A32D192ED03u * static_cast<std::uint64_t>(sweep_), sequence),
                static_cast<int>(sequence % views_), loader.scratch, loader.resizer};
      Image image = decoded;
      for (const auto& transform : options_.chain) image = transform(image, work);
      if (image.size != options_.size)
        return fmt::format("the image is {} x {} pixels where {} x {} are wanted", image.size.width, image.size.height,
                           options_.size.width, options_.size.height);
      with_type(image, [&]<class T>(T) { spread<T>(image, to + i * options_.features.dim, options_.channels_first); });
    }
  } catch (const std::exception& e) {  // memory, too, is the fault of a file that asks for so much
    return e.what();
  }
  return {};
}

// Consecutive views of one image are one job, so that it is decoded once.
void ImageSource::make_jobs(std::span<const std::uint32_t> sequences, Share& share) {
  kept_.clear();
  std::size_t jobs = 0;
  for (const std::uint32_t s : sequences) {
    const std::uint32_t image = image_of(s);
    if (!broken_.empty() && broken_.contains(image)) {
      share.left_out().push_back(s);
      continue;
    }
    if (jobs > 0 && jobs_[jobs - 1].image == image) {
      ++jobs_[jobs - 1].count;
    } else {
      if (jobs_.size() == jobs) jobs_.emplace_back();
      jobs_[jobs].image = image;
      jobs_[jobs].first = kept_.size();
      jobs_[jobs].count = 1;
      jobs_[jobs++].problem.clear();
    }
    kept_.push_back(s);
  }
  jobs_.resize(jobs);
}

void ImageSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  make_jobs(sequences, share);
  StreamBuffer& features = share[0];
  const std::size_t first_column = features.columns;
  for (std::size_t i = 0; i < kept_.size(); ++i) features.add_dense();
  float* const to = features.dense.data() + first_column * options_.features.dim;
  pool().run(jobs_.size(), [&](std::size_t j, std::size_t loader) {
    jobs_[j].problem = load(jobs_[j], kept_, to + jobs_[j].first * options_.features.dim, *loaders_[loader]);
  });
  if (std::any_of(jobs_.begin(), jobs_.end(), [](const Job& j) { return !j.problem.empty(); }))
    drop_failed(sequences, first_column, share);
  for (const std::uint32_t s : kept_) share[1].add_one_hot(static_cast<std::size_t>(list_.entry(image_of(s)).label));
  share.end_single_samples(kept_.size());
}

// Closes the gaps that images without pixels leave in the share.
void ImageSource::drop_failed(std::span<const std::uint32_t> sequences, std::size_t first_column, Share& share) {
  const std::size_t dim = options_.features.dim;
  float* const columns = share[0].dense.data() + first_column * dim;
  std::size_t kept = 0;
  for (const Job& job : jobs_) {
    if (job.problem.empty()) {
      if (kept < job.first) std::copy_n(columns + job.first * dim, job.count * dim, columns + kept * dim);
      std::copy_n(kept_.begin() + static_cast<std::ptrdiff_t>(job.first), job.count,
                  kept_.begin() + static_cast<std::ptrdiff_t>(kept));
      kept += job.count;
      continue;
    }
    broken_.insert(job.image);
    budget_.fault_here(list_.diagnostic(job.image, job.problem, broken_fix));
  }
  kept_.resize(kept);
  share[0].shrink_columns(first_column + kept);
  share.left_out().clear();
  for (const std::uint32_t s : sequences)
    if (broken_.contains(image_of(s))) share.left_out().push_back(s);
}

}  // namespace tutti::reader
