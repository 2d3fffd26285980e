// SPDX-License-Identifier: Apache-2.0
// share.h -- the memory of one rank's share of a minibatch. Sources append sequence after sequence; the prefetch ring
// holds a few shares and fills them again and again.
#pragma once

#include <vector>

#include "reader/buffer.h"
#include "tutti/reader.h"

namespace tutti::reader {

struct StreamBuffer {
  StreamInfo info;
  std::size_t columns = 0;
  Buffer<float> dense;
  Buffer<float> values;
  Buffer<std::int32_t> indices;
  Buffer<std::int64_t> column_begin;
  Buffer<std::int64_t> sequence_begin;

  explicit StreamBuffer(StreamInfo);
  void clear();
  // A dense column to be filled by the caller.
  float* add_dense() {
    ++columns;
    return dense.extend(info.dim);
  }
  // Ends a sparse column whose items were appended to values and indices.
  void end_sparse() {
    ++columns;
    column_begin.push_back(static_cast<std::int64_t>(values.size()));
  }
  void add_one_hot(std::size_t label);       // one column, dense or sparse as the stream is
  void shrink_columns(std::size_t columns);  // takes the last columns away
  void end_sequence() { sequence_begin.push_back(static_cast<std::int64_t>(columns)); }
  StreamData view() const;
};

class Share {
 public:
  explicit Share(const std::vector<StreamInfo>&);
  std::vector<StreamBuffer>& streams() { return streams_; }
  StreamBuffer& operator[](std::size_t stream) { return streams_[stream]; }
  void clear();
  void end_sequence(std::int64_t samples);
  // The same for `n` sequences of one sample each whose columns were all appended before.
  void end_single_samples(std::size_t n);

  // What the sequence ended last is of a longer one, in truncated minibatches.
  void add_fragment(const Fragment& f) { fragments_.push_back(f); }

  // For sources made of others: appends the streams of `from` as the streams `first` and on, without counting
  // sequences. Where nothing was appended before, memory changes hands instead of numbers.
  void append(std::size_t first, Share& from);
  void count(std::int64_t sequences, std::int64_t samples);
  std::int64_t sequences() const { return batch_.sequences; }

  // Batch::sequence_positions, one for each sequence.
  std::vector<std::int64_t>& positions() { return positions_; }

  // Batch::sequence_numbers, likewise.
  std::vector<std::uint32_t>& numbers() { return numbers_; }

  // Sequences that were asked for and are missing because their data are damaged.
  std::vector<std::uint32_t>& left_out() { return left_out_; }

  // Makes the spans of the batch point at the buffers, which must not change after.
  Batch& finish();

 private:
  std::vector<StreamBuffer> streams_;
  std::vector<std::uint32_t> left_out_;
  std::vector<Fragment> fragments_;
  std::vector<std::int64_t> positions_;
  std::vector<std::uint32_t> numbers_;
  Batch batch_;
};

}  // namespace tutti::reader
