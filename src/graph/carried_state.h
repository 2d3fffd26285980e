// SPDX-License-Identifier: Apache-2.0
// carried_state.h -- the state that a delay or recurrent layer carries from one minibatch to the next, per lane of
// truncated sequences: the columns of its last steps, in device memory. The host prepares lists of which columns a
// minibatch loads and stores before the forward pass, so the device calls are the same in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tutti/backend.h"
#include "tutti/reader.h"

namespace tutti::graph {

class CarriedState {
 public:
  // Floats per step, number of steps kept, and number of values per step.
  void shape(std::size_t width, std::size_t depth, std::size_t values = 1);

  // Prepares the lists of a minibatch. First the columns to load: the step `age` steps before the segment (1 = the last
  // one), or nothing if the segment starts a sequence or its lane has no such step.
  void begin_lists(Backend&, std::span<const Fragment>);
  void take_up(const Fragment&, std::size_t age);
  // Then the new last steps of the lanes, segment by segment: which columns of save() they are, for each value. The
  // oldest step is overwritten.
  void go_on(const Fragment&);
  void leave(const Fragment&, std::initializer_list<std::size_t> columns);
  void send_lists(Backend&);

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
