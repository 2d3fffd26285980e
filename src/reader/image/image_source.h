// SPDX-License-Identifier: Apache-2.0
// image_source.h -- labelled images as sequences of one sample each. Loader threads read, decode and transform the
// images of a share together. Random draws depend only on seed, sweep and image, so the data depend neither on the
// number of ranks nor on that of loaders.
#pragma once

#include <unordered_set>

#include "base/thread_pool.h"
#include "reader/image/decoder.h"
#include "reader/image/image_bytes.h"
#include "reader/image/image_list.h"
#include "reader/image/transform.h"
#include "reader/sequence_source.h"
#include "tutti/config.h"

namespace tutti::reader {

enum class CheckData { none, files, images };

enum class Choice { automatic, yes, no };

// Shared by ImageReader and the deserializers.
struct ImageFileOptions {
  std::string file;
  Choice grayscale = Choice::automatic;
  CheckData check = CheckData::files;
  std::int64_t max_errors = 0;
  std::int64_t loaders = 0;  // 0 = default_loaders()
  std::string precision = "float";
  void describe(config::Fields& f);
};

struct ImageSourceOptions : ImageFileOptions, Recipe {
  ImageList::Kind kind = ImageList::Kind::map;
  StreamInfo features = {}, labels = {};  // labels one-hot, sparse or dense
  std::uint64_t seed = 0;
};

class ImageSource final : public SequenceSource {
 public:
  explicit ImageSource(ImageSourceOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;
  void begin_epoch() override;
  void begin_sweep(std::int64_t sweep) override { sweep_ = sweep; }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string key(std::uint32_t sequence) override { return list_.key(image_of(sequence)); }
  std::string place(std::uint32_t sequence) override;

 private:
  struct Loader {
    Decoder decoder;
    Scratch scratch;
    Resizer resizer;
  };
  struct Job {  // views of one image
    std::uint32_t image = 0;
    std::size_t first = 0, count = 0;  // places in the share
    std::string problem;               // "" when all went well
  };

  std::uint32_t image_of(std::uint32_t sequence) const { return sequence / views_; }
  std::size_t wanted_loaders() const;
  ThreadPool& pool();
  void check_all(const std::function<std::string(std::uint32_t image, std::size_t loader)>& problem);
  Image decode(std::uint32_t image, Loader&);
  std::string load(const Job&, std::span<const std::uint32_t> sequences, float* to, Loader&);
  void make_jobs(std::span<const std::uint32_t> sequences, Share&);
  void drop_failed(std::span<const std::uint32_t> sequences, std::size_t first_column, Share&);

  ImageSourceOptions options_;
  std::vector<StreamInfo> infos_;
  std::uint32_t views_ = 1;
  ImageList list_;
  ImageFiles files_;
  FaultBudget budget_;
  std::optional<SequenceIndex> index_;
  std::int64_t sweep_ = 0;
  std::size_t loaders_wanted_ = 0;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<std::unique_ptr<Loader>> loaders_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> kept_;           // sequences of the share that are not known to be broken
  std::unordered_set<std::uint32_t> broken_;  // images met so far whose data are no good
};

}  // namespace tutti::reader
