// SPDX-License-Identifier: Apache-2.0
// libsvm_file.h -- the binary files of LibSVMBinaryReader: sparse features and dense labels in small batches, numbers
// in little-endian order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reader/mapped_file.h"

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
  bool lay_out(std::size_t begin, std::size_t end, std::size_t number_size, Batch&) const;

  MappedFile file_;
  std::vector<Stream> features_, labels_;
  std::vector<std::size_t> offsets_;  // of the batches in the file
};

}  // namespace tutti::reader
