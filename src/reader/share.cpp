// SPDX-License-Identifier: Apache-2.0
// Appends to a share, and views it as a Batch.
#include "reader/share.h"

#include <algorithm>
#include <cassert>

namespace tutti::reader {

StreamBuffer::StreamBuffer(StreamInfo i) : info(std::move(i)) { clear(); }

void StreamBuffer::clear() {
  columns = 0;
  dense.clear();
  values.clear();
  indices.clear();
  column_begin.clear();
  sequence_begin.clear();
  if (info.sparse) column_begin.push_back(0);
  sequence_begin.push_back(0);
}

void StreamBuffer::add_one_hot(std::size_t label) {
  assert(label < info.dim);
  if (info.sparse) {
    indices.push_back(static_cast<std::int32_t>(label));
    values.push_back(1.0f);
    end_sparse();
  } else {
    float* column = add_dense();
    std::fill_n(column, info.dim, 0.0f);
    column[label] = 1.0f;
  }
}

void StreamBuffer::shrink_columns(std::size_t n) {
  assert(n <= columns);
  columns = n;
  if (info.sparse) {
    column_begin.shrink(n + 1);
    values.shrink(static_cast<std::size_t>(column_begin[n]));
    indices.shrink(static_cast<std::size_t>(column_begin[n]));
  } else {
    dense.shrink(n * info.dim);
  }
}

StreamData StreamBuffer::view() const {
  StreamData d;
  d.columns = columns;
  d.sequence_begin = sequence_begin.view();
  if (info.sparse) {
    d.values = values.view();
    d.indices = indices.view();
    d.column_begin = column_begin.view();
  } else {
    d.dense = dense.view();
  }
  return d;
}

Share::Share(const std::vector<StreamInfo>& streams) {
  for (const auto& s : streams) streams_.emplace_back(s);
  batch_.streams.resize(streams.size());
}

void Share::clear() {
  for (auto& s : streams_) s.clear();
  left_out_.clear();
  fragments_.clear();
  positions_.clear();
  numbers_.clear();
  batch_.sequences = batch_.samples = 0;
}

void Share::end_sequence(std::int64_t samples) {
  for (auto& s : streams_) s.end_sequence();
  ++batch_.sequences;
  batch_.samples += samples;
}

void Share::end_single_samples(std::size_t n) {
  for (auto& s : streams_)
    for (std::size_t i = 0; i < n; ++i) s.sequence_begin.push_back(s.sequence_begin[s.sequence_begin.size() - 1] + 1);
  batch_.sequences += static_cast<std::int64_t>(n);
  batch_.samples += static_cast<std::int64_t>(n);
}

void Share::append(std::size_t first, Share& from) {
  for (std::size_t s = 0; s < from.streams_.size(); ++s) {
    StreamBuffer &to = streams_[first + s], &filled = from.streams_[s];
    if (to.sequence_begin.size() == 1 && to.columns == 0) {
      std::swap(to, filled);
      continue;
    }
    const auto columns = static_cast<std::int64_t>(to.columns), items = static_cast<std::int64_t>(to.values.size());
    to.dense.append(filled.dense.data(), filled.dense.size());
    to.values.append(filled.values.data(), filled.values.size());
    to.indices.append(filled.indices.data(), filled.indices.size());
    for (std::size_t i = 1; i < filled.column_begin.size(); ++i)
      to.column_begin.push_back(filled.column_begin[i] + items);
    for (std::size_t i = 1; i < filled.sequence_begin.size(); ++i)
      to.sequence_begin.push_back(filled.sequence_begin[i] + columns);
    to.columns += filled.columns;
  }
}

void Share::count(std::int64_t sequences, std::int64_t samples) {
  batch_.sequences += sequences;
  batch_.samples += samples;
}

Batch& Share::finish() {
  for (std::size_t i = 0; i < streams_.size(); ++i) batch_.streams[i] = streams_[i].view();
  batch_.fragments = fragments_;
  batch_.sequence_positions = positions_;
  batch_.sequence_numbers = numbers_;
  return batch_;
}

}  // namespace tutti::reader
