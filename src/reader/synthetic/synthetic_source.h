// SPDX-License-Identifier: Apache-2.0
// synthetic_source.h -- data made up from (seed, index): drawn digits to learn from, random numbers for speed runs.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "reader/sequence_source.h"
#include "reader/synthetic/digits.h"

namespace tutti::reader {

struct SyntheticStream {
  StreamInfo info;
  bool label = false;         // one-hot, else plain numbers
  bool per_sequence = false;  // one sample for each sequence, whatever its length
};

struct SyntheticData {
  std::vector<SyntheticStream> streams;
  std::uint32_t samples = 60000;
  std::uint64_t seed = 0;
  std::uint64_t first_sample = 0;           // of the endless row of samples; held-out data start elsewhere
  std::uint32_t shortest = 1, longest = 1;  // steps of a sequence
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

// Uniform numbers in [-1, 1) and uniform classes, at the cost of a copy: samples are ranges of one pool. Single
// samples or sequences of them; the streams of one sample are independent of each other.
class RandomSource final : public SequenceSource {
 public:
  explicit RandomSource(SyntheticData);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void begin_epoch() override;
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  void read_single_samples(std::span<const std::uint32_t> sequences, Share&);
  void copy_together(std::size_t stream, std::span<const std::uint32_t> sequences, StreamBuffer&);
  std::uint64_t draw_of(std::size_t stream, std::uint32_t sequence) const;
  void read_sequences(std::span<const std::uint32_t> sequences, Share&);
  void add(std::size_t stream, std::uint64_t draw, StreamBuffer&) const;

  static constexpr std::size_t pool_starts = 65536;
  SyntheticData data_;
  std::vector<StreamInfo> infos_;
  SequenceIndex index_;
  std::vector<float> pool_;
  std::unique_ptr<ThreadPool> loaders_;
};

}  // namespace tutti::reader
