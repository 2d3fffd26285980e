// SPDX-License-Identifier: Apache-2.0
#include "graph/carried_state.h"

#include <algorithm>
#include <cassert>

namespace tutti::graph {

void CarriedState::shape(std::size_t width, std::size_t depth, std::size_t values) {
  if (width == width_ && depth == depth_ && values == values_) return;
  *this = CarriedState();
  width_ = width, depth_ = depth, values_ = values;
}

// Memory for more lanes, with what the others have kept.
void CarriedState::know(Backend& backend, std::size_t lanes) {
  const std::size_t before = rows() * width_, after = lanes * depth_ * width_;
  DeviceBuffer larger;
  float* const to = larger.reserve(backend, values_ * after);
  for (std::size_t v = 0; v < values_ && before > 0; ++v)
    backend.map(UnaryOp::copy, of_value(v), to + v * after, before);
  columns_ = std::move(larger);
  lanes_.resize(lanes);
}

void CarriedState::begin_lists(Backend& backend, std::span<const Fragment> fragments) {
  std::size_t lanes = lanes_.size();
  for (const Fragment& f : fragments) lanes = std::max(lanes, static_cast<std::size_t>(f.lane) + 1);
  if (lanes > lanes_.size()) know(backend, lanes);
  list_.clear();
  left_.assign(values_ * rows(), -1);
}

void CarriedState::take_up(const Fragment& fragment, std::size_t age) {
  const auto l = static_cast<std::size_t>(fragment.lane);
  const bool known = !fragment.begins && age <= lanes_[l].known;
  const std::size_t step = (lanes_[l].next + depth_ - age % depth_) % depth_;
  list_.push_back(known ? static_cast<std::int32_t>(l * depth_ + step) : -1);
}

void CarriedState::go_on(const Fragment& fragment) {
  if (fragment.begins || fragment.ends) lanes_[static_cast<std::size_t>(fragment.lane)].known = 0;
}

void CarriedState::leave(const Fragment& fragment, std::initializer_list<std::size_t> columns) {
  const auto l = static_cast<std::size_t>(fragment.lane);
  assert(columns.size() == values_);
  Lane& lane = lanes_[l];
  for (std::size_t at = l * depth_ + lane.next; const std::size_t column : columns)
    left_[at] = static_cast<std::int32_t>(column), at += rows();
  lane.next = (lane.next + 1) % depth_;
  lane.known = std::min(lane.known + 1, depth_);
}

void CarriedState::send_lists(Backend& backend) {
  static_assert(sizeof(std::int32_t) == sizeof(float));
  taken_up_ = list_.size();
  list_.insert(list_.end(), left_.begin(), left_.end());
  backend.upload(reinterpret_cast<const float*>(list_.data()), list_there_.reserve(backend, list_.size()),
                 list_.size());
}

void CarriedState::load(Backend& backend, std::size_t value, std::size_t first, std::size_t count, float* y) const {
  backend.replace_columns(list_there() + first, count, width_, of_value(value), y);
}

void CarriedState::save(Backend& backend, std::size_t value, const float* x) const {
  backend.replace_columns(list_there() + taken_up_ + value * rows(), rows(), width_, x, of_value(value));
}

void CarriedState::forget_all() {
  for (auto& lane : lanes_) lane.known = 0;
}

}  // namespace tutti::graph
