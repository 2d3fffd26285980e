// SPDX-License-Identifier: Apache-2.0
// htk_source.h -- utterances of features and labels joined by their names; in frame mode, their single frames. With one
// stream, it is a source for CompositeDataReader.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "reader/htk/htk_features.h"
#include "reader/htk/htk_labels.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

// The block of readerType = "HTKMLFReader" and "HTKDeserializers".
struct HtkReaderOptions : DataLimits {
  std::vector<std::pair<std::string, HtkFeatureOptions>> features;
  std::vector<std::pair<std::string, HtkLabelOptions>> labels;
  bool frame_mode = true;
  RandomizeOptions order;
  std::string method = "blockRandomize";
  std::int64_t longest = 10'000;  // utterance, in frames; longer sequences are left out; 0 = any
  config::Schedule<std::int64_t> lanes = 1;
  TruncationOptions truncation;
  void describe(config::Fields& f);
  Randomization randomization(bool training) const;
};

class HtkSource final : public SequenceSource {
 public:
  explicit HtkSource(HtkReaderOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // reads lists, headers and labels
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string key(std::uint32_t sequence) override;
  std::string key_behind(std::uint32_t sequence) override;
  std::string place(std::uint32_t sequence) override;

 private:
  struct Joined {
    std::vector<std::uint32_t> parts;  // the utterance in each stream
    std::uint32_t frames = 0;
    std::uint32_t first = 0;  // its first frame among all, in frame mode
  };
  void join(std::size_t utterance, std::size_t primary);
  void add_to_index();
  // The utterance of a sequence, and its first frame in it.
  std::pair<std::size_t, std::uint32_t> find(std::uint32_t sequence) const;
  bool append(std::size_t utterance, std::uint32_t first, std::uint32_t count, Share&);

  HtkReaderOptions options_;
  std::vector<StreamInfo> infos_;
  FaultBudget budget_;
  std::vector<std::unique_ptr<UtteranceStream>> streams_;
  std::vector<Joined> utterances_;
  std::size_t primary_ = 0, dropped_ = 0, too_long_ = 0;
  SequenceIndex index_;
  std::set<std::size_t> damaged_;  // utterances that were found so when they were read
};

}  // namespace tutti::reader
