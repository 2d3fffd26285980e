// SPDX-License-Identifier: Apache-2.0
// htk_labels.h -- a stream of one class per frame, from master label files: utterances as runs of states with their
// times.
#pragma once

#include <unordered_map>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/htk/utterance_stream.h"

namespace tutti::reader {

struct HtkLabelOptions {
  std::string name;
  std::vector<std::string> files;
  std::string mapping;  // file with one state name per line; "" = states are class numbers
  std::int64_t dim = 0;
  bool sparse = false;
};

class HtkLabels final : public UtteranceStream {
 public:
  // Reads all files; skips and counts unusable utterances.
  HtkLabels(HtkLabelOptions, FaultBudget&);
  const StreamInfo& info() const override { return info_; }
  std::size_t utterances() const override { return utterances_.size(); }
  std::string_view key(std::size_t u) const override { return utterances_[u].key; }
  std::uint32_t frames(std::size_t u) const override { return utterances_[u].frames; }
  std::size_t find(std::string_view key) const override;
  std::string place(std::size_t u) const override;
  void append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer&) override;

 private:
  struct Run {
    std::uint32_t end = 0;  // the first frame behind it
    std::int32_t label = 0;
  };
  struct Utterance {
    std::string key;
    bool any_folder = false;  // written as "*/name"
    std::uint32_t frames = 0, line = 0, file = 0;
    std::size_t first_run = 0, runs = 0;
  };
  class Parser;
  void read_mapping();

  HtkLabelOptions options_;
  StreamInfo info_;
  std::unordered_map<std::string, std::int32_t> classes_;
  std::vector<Utterance> utterances_;
  std::vector<Run> runs_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
};

}  // namespace tutti::reader
