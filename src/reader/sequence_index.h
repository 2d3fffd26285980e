// SPDX-License-Identifier: Apache-2.0
// sequence_index.h -- what a data set looks like from outside: how many sequences of how many samples, in which chunks.
// Order, minibatches and division need nothing else, so every rank can work them out alone.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tutti::reader {

class SequenceIndex {
 public:
  struct Chunk {
    std::uint32_t first = 0;  // its first sequence
    std::uint32_t sequences = 0;
    std::int64_t samples = 0;
  };
  static constexpr std::uint32_t most_sequences = std::numeric_limits<std::uint32_t>::max();

  void begin_chunk() { chunks_.push_back({count_, 0, 0}); }
  void add(std::uint32_t samples) {
    if (chunks_.empty()) begin_chunk();
    // Most data sets have one sample per sequence; only others pay for a list of lengths.
    if (lengths_.empty() && samples != 1) lengths_.assign(count_, 1);
    if (!lengths_.empty() || samples != 1) lengths_.push_back(samples);
    ++count_;
    ++chunks_.back().sequences;
    chunks_.back().samples += samples;
    samples_ += samples;
  }
  // `n` sequences of one sample each in one chunk.
  static SequenceIndex uniform(std::uint32_t n) {
    SequenceIndex index;
    index.count_ = n;
    index.samples_ = n;
    index.chunks_.push_back({0, n, n});
    return index;
  }

  std::uint32_t sequences() const { return count_; }
  std::int64_t samples() const { return samples_; }
  bool single_samples() const { return lengths_.empty(); }
  std::int64_t samples_of(std::uint32_t sequence) const { return lengths_.empty() ? 1 : lengths_[sequence]; }
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> lengths_;  // empty while all are 1
  std::uint32_t count_ = 0;
  std::int64_t samples_ = 0;
};

}  // namespace tutti::reader
