// SPDX-License-Identifier: Apache-2.0
#include "graph/packed_inputs.h"

#include <algorithm>

namespace tutti::graph {

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

}  // namespace tutti::graph
