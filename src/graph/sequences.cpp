// SPDX-License-Identifier: Apache-2.0
#include "graph/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>

#include "tutti/error.h"

namespace tutti::graph {

void SequenceTable::assign(std::span<const std::int64_t> begin) {
  lengths_.resize(begin.empty() ? 0 : begin.size() - 1);
  for (std::size_t s = 0; s < lengths_.size(); ++s) lengths_[s] = begin[s + 1] - begin[s];
  pack();
}

void SequenceTable::assign_single(std::size_t count) {
  lengths_.assign(count, 1);
  pack();
}

void SequenceTable::assign_lengths(std::span<const std::int64_t> lengths) {
  lengths_.assign(lengths.begin(), lengths.end());
  pack();
}

void SequenceTable::pack() {
  const std::size_t n = lengths_.size();
  stream_begin_.resize(n + 1);
  stream_begin_[0] = 0;
  for (std::size_t s = 0; s < n; ++s) stream_begin_[s + 1] = stream_begin_[s] + lengths_[s];
  order_.resize(n), place_.resize(n);
  std::iota(order_.begin(), order_.end(), 0U);
  // Not stable_sort, which allocates memory. The index breaks ties.
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return lengths_[a] != lengths_[b] ? lengths_[a] > lengths_[b] : a < b;
  });
  for (std::size_t p = 0; p < n; ++p) place_[order_[p]] = static_cast<std::uint32_t>(p);
  const auto steps = static_cast<std::size_t>(n == 0 ? 0 : lengths_[order_[0]]);
  step_begin_.assign(1, 0);
  source_.resize(static_cast<std::size_t>(stream_begin_[n]));
  std::size_t width = n, column = 0;
  identity_ = true;
  for (std::size_t t = 0; t < steps; ++t) {
    while (width > 0 && length(order_[width - 1]) <= t) --width;
    for (std::size_t p = 0; p < width; ++p, ++column) {
      source_[column] = static_cast<std::int32_t>(stream_begin_[order_[p]] + static_cast<std::int64_t>(t));
      identity_ = identity_ && static_cast<std::size_t>(source_[column]) == column;
    }
    step_begin_.push_back(column);
  }
}

void require_same_sequences(const std::string& name, std::span<const std::int64_t> begin, const std::string& other,
                            std::span<const std::int64_t> begin_of_other) {
  const auto length = [](std::span<const std::int64_t> b, std::size_t s) {
    return b.empty() ? 1 : s + 1 < b.size() ? b[s + 1] - b[s] : 0;
  };
  const std::size_t count = std::max({begin.size(), begin_of_other.size(), std::size_t{1}}) - 1;
  for (std::size_t s = 0; s < count; ++s)
    if (length(begin, s) != length(begin_of_other, s))
      throw Error(
          fmt::format("the streams of a minibatch do not fit: sequence {} has {} steps in '{}' and {} in '{}'; "
                      "streams of different length need a dynamicAxis of their own",
                      s, length(begin, s), name, length(begin_of_other, s), other));
}

const float* PackedInputs::dense(Backend& backend, const SequenceTable& table, std::size_t tensor, const float* stream,
                                 std::size_t elements, std::size_t planned) {
  if (table.in_stream_order()) return stream;
  if (dense_.size() <= tensor) dense_.resize(tensor + 1);
  float* workspace = dense_[tensor].reserve(backend, std::max(table.columns(), planned) * elements);
  backend.gather_columns(table.source(), elements, stream, workspace);
  return workspace;
}

SparseView PackedInputs::sparse(const SequenceTable& table, std::size_t tensor, const SparseView& stream) {
  if (table.in_stream_order()) return stream;
  if (sparse_.size() <= tensor) sparse_.resize(tensor + 1);
  Sparse& workspace = sparse_[tensor];
  workspace.values.clear(), workspace.indices.clear(), workspace.begin.assign(1, 0);
  for (const auto column : table.source()) {
    const auto first = stream.begin[column], last = stream.begin[column + 1];
    workspace.values.insert(workspace.values.end(), stream.values + first, stream.values + last);
    workspace.indices.insert(workspace.indices.end(), stream.indices + first, stream.indices + last);
    workspace.begin.push_back(static_cast<std::int64_t>(workspace.values.size()));
  }
  return {table.columns(), workspace.values.data(), workspace.indices.data(), workspace.begin.data()};
}

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

void CarriedState::list(Backend& backend, std::span<const Fragment> fragments, const SequenceTable& table, bool keeps) {
  std::size_t lanes = lanes_.size();
  for (const Fragment& f : fragments) lanes = std::max(lanes, static_cast<std::size_t>(f.lane) + 1);
  if (lanes > lanes_.size()) know(backend, lanes);
  list_.clear();
  left_.assign(values_ * rows(), -1);
  for (std::size_t t = 0; t < std::min(depth_, table.steps()); ++t)
    for (std::size_t p = 0; p < table.width(t); ++p) take_up(fragments[table.sequence(p)], depth_ - t);
  for (std::size_t s = 0; keeps && s < fragments.size(); ++s) {
    const Fragment& fragment = fragments[s];
    if (fragment.begins || fragment.ends) lanes_[static_cast<std::size_t>(fragment.lane)].known = 0;
    if (fragment.ends) continue;
    const std::size_t length = table.length(s);
    for (std::size_t t = length > depth_ ? length - depth_ : 0; t < length; ++t)
      leave(fragment, table.column(s, t), table.place(s));
  }
  static_assert(sizeof(std::int32_t) == sizeof(float));
  taken_up_ = list_.size();
  list_.insert(list_.end(), left_.begin(), left_.end());
  backend.upload(reinterpret_cast<const float*>(list_.data()), list_there_.reserve(backend, list_.size()),
                 list_.size());
}

// The step `age` steps before the segment (1 = the last one), or nothing if the segment starts a sequence or its lane
// has no such step.
void CarriedState::take_up(const Fragment& fragment, std::size_t age) {
  const auto l = static_cast<std::size_t>(fragment.lane);
  const bool known = !fragment.begins && age <= lanes_[l].known;
  const std::size_t step = (lanes_[l].next + depth_ - age % depth_) % depth_;
  list_.push_back(known ? static_cast<std::int32_t>(l * depth_ + step) : -1);
}

// The oldest step of the lane is overwritten.
void CarriedState::leave(const Fragment& fragment, std::size_t column, std::size_t place) {
  const auto l = static_cast<std::size_t>(fragment.lane);
  Lane& lane = lanes_[l];
  const std::size_t at = l * depth_ + lane.next;
  left_[at] = static_cast<std::int32_t>(column);
  if (values_ > 1) left_[at + rows()] = static_cast<std::int32_t>(place);
  lane.next = (lane.next + 1) % depth_;
  lane.known = std::min(lane.known + 1, depth_);
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
