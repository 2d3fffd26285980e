// SPDX-License-Identifier: Apache-2.0
#include "graph/sparse_rows.h"

#include <algorithm>

namespace tutti::graph {

void SparseRows::bind(std::vector<Source> sources, Parameters& p) {
  sources_ = std::move(sources);
  std::sort(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) { return a.slice < b.slice; });
  std::size_t most = 0;
  p.sparse_rows.resize(p.slices.size());
  for (const Source& s : sources_) {
    p.sparse_rows[s.slice].reserve(p.slices[s.slice].sparse_row_count());
    most = std::max(most, p.slices[s.slice].sparse_row_count());
  }
  set_.plan(most);
}

void SparseRows::list(const std::vector<StreamInfo>& streams, const Batch& batch, Parameters& p, Backend& backend) {
  for (std::size_t i = 0; i < sources_.size();) {
    const std::size_t slice = sources_[i].slice;
    auto& list = p.sparse_rows[slice];
    backend.clear_sparse_rows(p.slices[slice], list, p.gradients);
    for (; i < sources_.size() && sources_[i].slice == slice; ++i)
      for (std::size_t s = 0; s < streams.size() && s < batch.streams.size(); ++s)
        if (streams[s].name == sources_[i].input) add(batch.streams[s], sources_[i].rows);
    set_.take(list);
  }
}

void SparseRows::add(const StreamData& stream, std::size_t rows) {
  if (stream.column_begin.empty()) return;
  const auto first = static_cast<std::size_t>(stream.column_begin.front()),
             last = static_cast<std::size_t>(stream.column_begin.back());
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t begin = static_cast<std::size_t>(stream.indices[i]) * rows;
    for (std::size_t row = begin; row < begin + rows; ++row) set_.add(static_cast<std::uint32_t>(row));
  }
}

}  // namespace tutti::graph
