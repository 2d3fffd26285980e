// SPDX-License-Identifier: Apache-2.0
#include "graph/sequences.h"

#include <algorithm>
#include <cassert>
#include <numeric>

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

}  // namespace tutti::graph
