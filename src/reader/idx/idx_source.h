// SPDX-License-Identifier: Apache-2.0
// idx_source.h -- samples from IDX files, one file per stream. The arrays stay in memory as stored and are converted
// when a minibatch is made.
#pragma once

#include "reader/idx/idx_file.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

struct IdxStream {
  std::string name;
  std::string path;
  std::int64_t dim = 0;  // as the user says; more than 1 for a file of single numbers makes them classes, one-hot
  bool sparse = false;   // of class streams
  double scale = 0;      // factor on plain numbers; 0 takes bytes to 0..1 and leaves other types as they are
};

class IdxSource final : public SequenceSource {
 public:
  explicit IdxSource(std::vector<IdxStream>);  // reads the headers
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // loads the files
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  struct Item : IdxStream {
    bool classes = false;
  };
  static void check_stream(Item&, const IdxHeader&);
  static void check_classes(const Item&, const IdxArray&);

  std::vector<Item> streams_;
  std::vector<StreamInfo> infos_;
  std::vector<IdxArray> arrays_;
  SequenceIndex index_;
};

}  // namespace tutti::reader
