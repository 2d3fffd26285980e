// SPDX-License-Identifier: Apache-2.0
// minibatch_walker.h -- cuts the endless sequence of sweeps into epochs and minibatches and distributes their sequences
// to the ranks. Every rank walks alike and keeps its own share, so all make the same number of steps, or the shares
// that it gets from the work queue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reader/sweep_order.h"
#include "tutti/reader.h"

namespace tutti::reader {

struct Step {
  std::vector<std::uint32_t> mine;      // sequences of this rank, in order
  std::vector<std::int64_t> positions;  // of the same, as in Batch
  std::int64_t global_samples = 0;
  std::int64_t columns = 0, global_columns = 0;  // of this rank, of the whole minibatch
  std::int64_t position = 0, minibatch = 0;      // as in Batch
  std::int64_t sweep = 0;                        // that all of them belong to
};

// How many columns the sequences of a share take when packed side by side.
// First fit: rows as wide as the longest sequence; each sequence goes to the first row with capacity left, else opens a
// row. The count includes the gaps at the row ends. Keeps its scratch memory.
class Packing {
 public:
  std::int64_t columns(std::span<const std::int64_t> lengths);

 private:
  std::vector<std::int64_t> capacity_;  // a tournament tree: capacity_[1] is the largest capacity of all rows
};

class MinibatchWalker {
 public:
  // With `most_sequences` minibatches have so many sequences, whatever their lengths.
  MinibatchWalker(const SequenceIndex& index, Randomization randomization, std::int64_t most_sequences = 0)
      : cursor_(index, randomization), most_sequences_(static_cast<std::size_t>(most_sequences)) {}
  void start(const EpochPlan&);
  bool next(Step&);  // false at the end of the epoch

 private:
  bool cut(Step&);
  bool keep(int share, Step&);  // whether the share has anything
  void count_columns(int share, std::size_t first, std::size_t stride, Step&);

  OrderCursor cursor_;
  std::size_t most_sequences_;
  EpochPlan plan_;
  std::int64_t epoch_begin_ = 0, epoch_end_ = 0;
  std::int64_t end_ = 0;          // no minibatch begins there or later
  std::int64_t minibatches_ = 0;  // cut since start()
  // The one cut last.
  std::uint32_t first_place_ = 0;
  std::vector<std::uint32_t> sequences_;
  std::vector<std::int64_t> lengths_, rank_lengths_;
  std::vector<std::int64_t> begins_;  // samples of the minibatch before each sequence; empty: one sample each
  Packing packing_;
};

}  // namespace tutti::reader
