// SPDX-License-Identifier: Apache-2.0
#include "graph/packed_inputs.h"

#include <algorithm>

namespace tutti::graph {

const float* PackedInputs::dense(Backend& backend, const SequenceTable& table, std::size_t tensor, const float* stream,
                                 std::size_t elements, std::size_t planned) {
  if (table.in_stream_order()) return stream;
  if (dense_.size() <= tensor) dense_.resize(tensor + 1);
  float* room = dense_[tensor].room(backend, std::max(table.columns(), planned) * elements);
  backend.gather_columns(table.source(), elements, stream, room);
  return room;
}

SparseView PackedInputs::sparse(const SequenceTable& table, std::size_t tensor, const SparseView& stream) {
  if (table.in_stream_order()) return stream;
  if (sparse_.size() <= tensor) sparse_.resize(tensor + 1);
  Sparse& room = sparse_[tensor];
  room.values.clear(), room.indices.clear(), room.begin.assign(1, 0);
  for (const auto column : table.source()) {
    const auto first = stream.begin[column], last = stream.begin[column + 1];
    room.values.insert(room.values.end(), stream.values + first, stream.values + last);
    room.indices.insert(room.indices.end(), stream.indices + first, stream.indices + last);
    room.begin.push_back(static_cast<std::int64_t>(room.values.size()));
  }
  return {table.columns(), room.values.data(), room.indices.data(), room.begin.data()};
}

}  // namespace tutti::graph
