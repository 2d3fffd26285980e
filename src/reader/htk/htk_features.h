// SPDX-License-Identifier: Apache-2.0
// htk_features.h -- a stream of feature frames with left and right context, from a script file: a list of utterances,
// [logical.name=]file[firstFrame,lastFrame].
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "reader/buffer.h"
#include "reader/fault_budget.h"
#include "reader/htk/htk_file.h"
#include "reader/htk/utterance_stream.h"
#include "tutti/config.h"

namespace tutti::reader {

// Any block with scpFile.
struct HtkFeatureOptions {
  std::string scp, prefix;                      // the prefix is prepended to relative paths of the list
  std::int64_t dim = 0;                         // of a frame with its neighbours
  config::Schedule<std::int64_t> context = {};  // an odd number of frames, or left and right; empty = by dim
  bool expands = false;
  void describe(config::Fields& f);
};

// A line of a script file.
struct ScpEntry {
  std::string key;   // the logical name, else the file's, without extension
  std::string path;  // of the file
  std::optional<std::pair<std::uint32_t, std::uint32_t>> frames;  // first and last
};
// Reads the line with the settings of the stream: scp and prefix. False when it names no utterance.
bool read_scp_entry(const HtkFeatureOptions&, std::string_view line, ScpEntry&);

class HtkFeatures final : public UtteranceStream {
 public:
  // Reads the list and the headers of all its files; skips and counts unusable utterances.
  HtkFeatures(const std::string& name, HtkFeatureOptions, FaultBudget&);
  bool expands() const override { return options_.expands; }
  std::string place(std::size_t u) const override;
  void append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer&) override;
  std::uint64_t bytes() const override { return bytes_; }
  void keep() override { kept_.resize(utterances_.size()); }

 private:
  struct File {
    std::string path;
    HtkHeader header;
  };
  void add(const ScpEntry&, std::size_t line);
  std::uint32_t file(const std::string& path);
  void decide_context(const File&);
  const float* rows(std::size_t utterance, std::uint32_t first, std::uint32_t count);

  HtkFeatureOptions options_;
  std::int64_t left_ = 0, right_ = 0;  // frames of context
  std::vector<File> files_;
  std::unordered_map<std::string, std::uint32_t> file_numbers_;
  std::unordered_map<std::string, std::string> broken_;  // files, with the reason
  std::uint32_t frame_dim_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Buffer<float>> kept_;  // of each utterance; empty when none is kept
  std::vector<bool> checked_;        // of each utterance that is not kept
  HtkFiles reading_;
  Buffer<float> scratch_;
};

}  // namespace tutti::reader
