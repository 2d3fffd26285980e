// SPDX-License-Identifier: Apache-2.0
// synthetic_source.h -- data made up from (seed, index): drawn digits to learn from, random numbers for speed runs.
#pragma once

#include "reader/sequence_source.h"
#include "reader/synthetic/digits.h"

namespace tutti::reader {

struct SyntheticStream {
  StreamInfo info;
  bool label = false;  // one-hot, else plain numbers
};

struct SyntheticData {
  std::vector<SyntheticStream> streams;
  std::uint32_t samples = 60000;
  std::uint64_t seed = 0;
  std::uint64_t first_sample = 0;  // of the endless row of samples; held-out data start elsewhere
};

// 28 x 28 digits as drawn by digits.h; values 0 to 1.
class DigitSource final : public SequenceSource {
 public:
  DigitSource(SyntheticData, DigitStyle);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  const std::uint8_t* picture(std::uint32_t sequence);

  SyntheticData data_;
  DigitStyle style_;
  std::vector<StreamInfo> infos_;
  SequenceIndex index_;
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;  // pictures once drawn, many to a block
  std::vector<bool> drawn_;
};

// Uniform numbers in [-1, 1) and uniform classes, at the cost of a copy: samples are stretches of one pool.
class RandomSource final : public SequenceSource {
 public:
  explicit RandomSource(SyntheticData);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  static constexpr std::size_t pool_starts = 65536;
  SyntheticData data_;
  std::vector<StreamInfo> infos_;
  SequenceIndex index_;
  std::vector<float> pool_;
};

}  // namespace tutti::reader
