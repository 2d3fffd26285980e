// SPDX-License-Identifier: Apache-2.0
// libsvm_source.h -- the samples of a binary file of sparse features and dense labels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/libsvm/libsvm_file.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

struct LibsvmSourceOptions {
  std::string path;
  std::map<std::string, std::string> renamed;  // name in the file -> name of the network's input
  std::int64_t max_errors = 0, trace_level = 0;
};

class LibsvmSource final : public SequenceSource {
 public:
  explicit LibsvmSource(const LibsvmSourceOptions&);
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
