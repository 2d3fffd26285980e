// SPDX-License-Identifier: Apache-2.0
// sequences.h -- packed order: the order of columns for recurrent networks. Sequences are sorted by length, longest
// first (stable), and the axis is time-major: step t is one block with a column for each sequence longer than t. So
// there are no gaps and no masks, and block t - 1 begins with the columns of the sequences of block t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/backend.h"
#include "tutti/parameters.h"
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
  // Offsets of the sequences in the stream.
  std::span<const std::int64_t> stream_begin() const { return stream_begin_; }
  PackedSteps packed() const { return {step_begin_}; }
  bool in_stream_order() const { return identity_; }  // packed order and stream order are the same

 private:
  void pack();

  std::vector<std::int64_t> lengths_, stream_begin_{0};
  std::vector<std::uint32_t> order_, place_;
  std::vector<std::size_t> step_begin_{0};
  std::vector<std::int32_t> source_;
  bool identity_ = true;
};

// Throws Error unless two streams of an axis have the same sequences; no offsets mean sequences of one column each.
void require_same_sequences(const std::string& name, std::span<const std::int64_t> begin, const std::string& other,
                            std::span<const std::int64_t> begin_of_other);

// Brings the streams of a minibatch into packed order: dense streams are copied, sparse ones are gathered column by
// column and stay sparse. Memory is reused between minibatches.
class PackedInputs {
 public:
  // `stream` is device memory; up to `planned` columns. Returns the stream's own pointer if the order is the same.
  const float* dense(Backend& backend, const SequenceTable& table, std::size_t tensor, const float* stream,
                     std::size_t elements, std::size_t planned);
  SparseView sparse(const SequenceTable& table, std::size_t tensor, const SparseView& stream);

 private:
  struct Sparse {
    std::vector<float> values;
    std::vector<std::int32_t> indices;
    std::vector<std::int64_t> begin;
  };
  std::vector<DeviceBuffer> dense_;
  std::vector<Sparse> sparse_;
};

// The state that a delay or recurrent layer carries from one minibatch to the next, per lane of truncated sequences:
// the columns of its last steps, in device memory. The host prepares lists of which columns a minibatch loads and
// stores before the forward pass, so the device calls are the same in every step.
class CarriedState {
 public:
  // Floats per step, number of steps kept, and number of values per step.
  void shape(std::size_t width, std::size_t depth, std::size_t values = 1);

  // Prepares the lists of a minibatch: the columns to load for its first steps and, if `keeps`, the new last steps of
  // the lanes, as columns of save(). Of a second value there is one column for each sequence, at its place.
  void list(Backend&, std::span<const Fragment>, const SequenceTable&, bool keeps);

  // Writes the loaded state to the `count` columns of y from index `first` of the list; other columns are unchanged.
  void load(Backend&, std::size_t value, std::size_t first, std::size_t count, float* y) const;
  void save(Backend&, std::size_t value, const float* x) const;

  void forget_all();

 private:
  struct Lane {
    std::size_t next = 0, known = 0;  // in steps: position of the next one, and number of valid ones
  };
  std::size_t rows() const { return lanes_.size() * depth_; }
  float* of_value(std::size_t value) const { return columns_.data() + value * rows() * width_; }
  const std::int32_t* list_there() const { return reinterpret_cast<const std::int32_t*>(list_there_.data()); }
  void know(Backend&, std::size_t lanes);
  void take_up(const Fragment&, std::size_t age);
  void leave(const Fragment&, std::size_t column, std::size_t place);

  std::size_t width_ = 0, depth_ = 0, values_ = 1;
  std::vector<Lane> lanes_;
  DeviceBuffer columns_;  // by value, by lane, by step
  // The columns to load, then by value the destinations of our columns. Negative: none.
  std::vector<std::int32_t> list_;
  std::vector<std::int32_t> left_;
  std::size_t taken_up_ = 0;
  DeviceBuffer list_there_;
};

}  // namespace tutti::graph
