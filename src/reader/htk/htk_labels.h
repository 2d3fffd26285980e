// SPDX-License-Identifier: Apache-2.0
// htk_labels.h -- a stream of one class per frame, from master label files: utterances as runs of states with their
// times.
#pragma once

#include <vector>

#include "reader/fault_budget.h"
#include "reader/htk/utterance_stream.h"
#include "reader/lines.h"
#include "tutti/config.h"

namespace tutti::reader {

// Any block with mlfFile or mlfFileList.
struct HtkLabelOptions {
  std::vector<std::string> files;
  std::string mapping = {};  // file with one state name per line; "" = states are class numbers
  std::int64_t dim = 0;
  bool sparse = true;
  std::string list = {}, type = "category";  // the list is a file that names more files
  void describe(config::Fields& f);
};

class HtkLabels final : public UtteranceStream {
 public:
  // Reads all files; skips and counts unusable utterances.
  HtkLabels(const std::string& name, HtkLabelOptions, FaultBudget&);
  std::size_t find(std::string_view key) const override;
  bool dropped(std::string_view key) const override;
  std::string place(std::size_t u) const override;
  void append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer&) override;

 private:
  struct Run {
    std::uint32_t end = 0;  // the first frame behind it
    std::int32_t label = 0;
  };
  class Parser;

  HtkLabelOptions options_;
  ClassNames classes_;
  std::vector<Run> runs_;  // of all utterances, in their order
};

}  // namespace tutti::reader
