// SPDX-License-Identifier: Apache-2.0
// sequences.h -- packed order: the order of columns for recurrent networks. Sequences are sorted by length, longest
// first (stable), and the axis is time-major: step t is one block with a column for each sequence longer than t. So
// there are no gaps and no masks, and block t - 1 begins with the columns of the sequences of block t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/reader.h"
#include "tutti/recurrent.h"

namespace tutti::graph {

class SequenceTable {
 public:
  // Sequences + 1 column offsets, as in a stream.
  void assign(std::span<const std::int64_t> begin);
  void assign_single(std::size_t count);  // sequences of one column each
  void assign_lengths(std::span<const std::int64_t> lengths);

  std::size_t sequences() const { return lengths_.size(); }
  std::size_t columns() const { return step_begin_.back(); }
  std::size_t steps() const { return step_begin_.size() - 1; }
  std::size_t begin(std::size_t step) const { return step_begin_[step]; }
  std::size_t width(std::size_t step) const {
    return step < steps() ? step_begin_[step + 1] - step_begin_[step] : std::size_t{0};
  }
  std::size_t length(std::size_t sequence) const { return static_cast<std::size_t>(lengths_[sequence]); }
  // The sequence at this position of every block, and the inverse.
  std::size_t sequence(std::size_t place) const { return order_[place]; }
  std::size_t place(std::size_t sequence) const { return place_[sequence]; }
  std::size_t column(std::size_t sequence, std::size_t step) const { return step_begin_[step] + place_[sequence]; }
  // The column of the stream (sequence after sequence) at each column of the packed order.
  std::span<const std::int32_t> source() const { return source_; }
  // Offset of a sequence in the stream.
  std::size_t stream_begin(std::size_t sequence) const { return static_cast<std::size_t>(stream_begin_[sequence]); }
  std::span<const std::int64_t> stream_begin() const { return stream_begin_; }
  PackedSteps packed() const { return {step_begin_}; }
  bool in_stream_order() const { return identity_; }  // packed order and stream order are the same
  bool same_structure(const SequenceTable& o) const { return lengths_ == o.lengths_; }

 private:
  void pack();

  std::vector<std::int64_t> lengths_, stream_begin_{0};
  std::vector<std::uint32_t> order_, place_;
  std::vector<std::size_t> step_begin_{0};
  std::vector<std::int32_t> source_;
  bool identity_ = true;
};

}  // namespace tutti::graph
