// SPDX-License-Identifier: Apache-2.0
// libsvm_source.h -- the binary files of LibSVMBinaryReader: sparse features and dense labels in small batches, numbers
// in little-endian order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/mapped_file.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

class LibsvmFile {
 public:
  struct Stream {
    std::string name;
    std::size_t dim = 0;
  };
  // A sample's features of one stream: items [begin, end) of the batch.
  struct Items {
    std::size_t begin = 0, end = 0;
  };
  // A batch of samples; the pointers are not aligned.
  struct Batch {
    std::size_t samples = 0;
    std::size_t number_size = 4;  // 8: doubles
    struct Features {
      std::size_t items = 0;
      const char *values = nullptr, *rows = nullptr, *columns = nullptr;
    };
    std::vector<Features> features;
    std::vector<const char*> labels;
    float number(const char* from, std::size_t i) const;
    std::int32_t row(std::size_t stream, std::size_t item) const;
    Items items(std::size_t stream, std::size_t sample) const;
  };

  explicit LibsvmFile(const std::string& path);  // reads the header; throws Error
  const std::vector<Stream>& features() const { return features_; }
  const std::vector<Stream>& labels() const { return labels_; }
  std::size_t batches() const { return offsets_.size(); }
  // Fills in the batch, whose memory is used again; throws Error where its parts do not fill its place.
  void find(std::size_t batch, Batch&) const;
  void check_unchanged() const { file_.check_unchanged(); }
  const std::string& path() const { return file_.path(); }

 private:
  [[noreturn]] void damaged(const std::string& what) const;
  template <class T>
  T take(std::size_t& at, const char* what) const;
  std::vector<Stream> take_streams(std::size_t count, std::size_t& at) const;
  bool lay_out(std::size_t at, std::size_t end, std::size_t number_size, Batch&) const;

  MappedFile file_;
  std::vector<Stream> features_, labels_;
  std::vector<std::size_t> offsets_;  // of the batches in the file
};

// The block of readerType = "LibSVMBinaryReader".
struct LibsvmReaderOptions : DataLimits {
  std::string file;
  RandomizeOptions order{.randomize = "none"};
  std::map<std::string, std::string> renamed;  // by blocks: name in the file -> name of the network's input
  void describe(config::Fields& f);
};

class LibsvmSource final : public SequenceSource {
 public:
  explicit LibsvmSource(const LibsvmReaderOptions&);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // looks at the whole file once
  void begin_epoch() override { file_.check_unchanged(); }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string place(std::uint32_t sequence) override;

 private:
  struct Place {
    std::uint32_t batch = 0, sample = 0;
  };
  // What is wrong with a sample; "" when nothing is.
  std::string fault_of(const LibsvmFile::Batch&, std::size_t sample) const;
  std::string name_of(const Place& p) const;

  LibsvmFile file_;
  FaultBudget budget_;
  std::vector<StreamInfo> infos_;  // features, then labels
  SequenceIndex index_;
  std::vector<Place> places_;
  LibsvmFile::Batch batch_;
  std::size_t found_ = static_cast<std::size_t>(-1);  // which batch that is
};

}  // namespace tutti::reader
