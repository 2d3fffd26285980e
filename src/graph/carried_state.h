// SPDX-License-Identifier: Apache-2.0
// carried_state.h -- what one delay or recurrent layer keeps from one minibatch to the next, for each lane of truncated
// sequences: the columns of its last steps, in memory of the backend. Which of them a minibatch takes up and which it
// leaves are lists that are made on the host, before the forward pass; so the calls are the same whoever begins or
// ends.
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
  // Floats of a step, how many steps are kept, and how many values each step has.
  void shape(std::size_t width, std::size_t depth, std::size_t values = 1);

  // The lists of a minibatch. First what its columns begin from, one after the other: the step `age` steps before the
  // fragment (1 = the last one), or nothing where it is the first of a sequence or its lane is not known that far back.
  void begin_lists(Backend&, std::span<const Fragment>);
  void take_up(const Fragment&, std::size_t age);
  // Then the new last steps of the lanes, fragment by fragment: which columns of save() they are, for each value. The
  // oldest step makes place.
  void go_on(const Fragment&);
  void leave(const Fragment&, std::initializer_list<std::size_t> columns);
  void send_lists(Backend&);

  // What y begins from, in `count` columns from number `first` of the list on; the others stay.
  void load(Backend&, std::size_t value, std::size_t first, std::size_t count, float* y) const;
  void save(Backend&, std::size_t value, const float* x) const;

  void forget_all();

 private:
  struct Lane {
    std::size_t next = 0, known = 0;  // steps: where the next one goes, how many there are
  };
  std::size_t rows() const { return lanes_.size() * depth_; }
  float* of_value(std::size_t value) const { return columns_.data() + value * rows() * width_; }
  const std::int32_t* list_there() const { return reinterpret_cast<const std::int32_t*>(list_there_.data()); }
  void know(Backend&, std::size_t lanes);

  std::size_t width_ = 0, depth_ = 0, values_ = 1;
  std::vector<Lane> lanes_;
  DeviceBuffer columns_;  // by value, by lane, by step
  // What is taken up; behind it, by value, what goes to each column of ours. Negative: nothing.
  std::vector<std::int32_t> list_;
  std::vector<std::int32_t> left_;
  std::size_t taken_up_ = 0;
  DeviceBuffer list_there_;
};

}  // namespace tutti::graph
