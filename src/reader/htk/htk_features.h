// SPDX-License-Identifier: Apache-2.0
// htk_features.h -- a stream of feature frames with left and right context.
#pragma once

#include <unordered_map>
#include <vector>

#include "reader/buffer.h"
#include "reader/htk/htk_file.h"
#include "reader/htk/scp_list.h"
#include "reader/htk/utterance_stream.h"

namespace tutti::reader {

struct HtkFeatureOptions {
  std::string name, scp, prefix;
  std::int64_t dim = 0;                // of a frame with its neighbours
  std::int64_t left = -1, right = -1;  // frames of context; -1 = by dim
  bool expands = false;
};

class HtkFeatures final : public UtteranceStream {
 public:
  // Reads the list and the headers of all its files; skips and counts unusable utterances.
  HtkFeatures(HtkFeatureOptions, FaultBudget&);
  const StreamInfo& info() const override { return info_; }
  std::size_t utterances() const override { return utterances_.size(); }
  std::string_view key(std::size_t u) const override { return utterances_[u].key; }
  std::uint32_t frames(std::size_t u) const override { return utterances_[u].frames; }
  std::size_t find(std::string_view key) const override;
  bool expands() const override { return options_.expands; }
  std::string place(std::size_t u) const override;
  void append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer&) override;
  std::uint64_t bytes() const override { return bytes_; }
  void keep() override { keep_ = true; }

 private:
  struct File {
    std::string path;
    HtkHeader header;
  };
  struct Utterance {
    std::string key;
    std::uint32_t file = 0, first = 0, frames = 0;
    std::uint32_t line = 0;
    Buffer<float> kept;
  };
  void add(const ScpEntry&);
  const File& file(const std::string& path, std::uint32_t& number);
  void decide_context(const File&);
  const float* rows(Utterance&, std::uint32_t first, std::uint32_t count);

  HtkFeatureOptions options_;
  StreamInfo info_;
  std::vector<File> files_;
  std::unordered_map<std::string, std::uint32_t> file_numbers_;
  std::unordered_map<std::string, std::string> broken_;  // files, with the reason
  std::vector<Utterance> utterances_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
  std::uint32_t frame_dim_ = 0;
  std::uint64_t bytes_ = 0;
  bool keep_ = false;
  HtkFiles reading_;
  Buffer<float> scratch_;
};

}  // namespace tutti::reader
