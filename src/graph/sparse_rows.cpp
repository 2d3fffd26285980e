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

template <class Add>
void SparseRows::list(bool gathered, bool first_part, Parameters& p, Backend& backend, const Add& add) {
  for (std::size_t i = 0; i < sources_.size();) {
    const std::size_t slice = sources_[i].slice, first = i;
    while (i < sources_.size() && sources_[i].slice == slice) ++i;
    if ((sources_[first].gathered != none) != gathered) continue;
    auto& list = p.sparse_rows[slice];
    if (first_part)
      backend.clear_sparse_rows(p.slices[slice], list, p.gradients);
    else
      for (const std::uint32_t row : list) set_.add(row);
    for (std::size_t k = first; k < i; ++k) add(sources_[k]);
    set_.take(list);
  }
}

void SparseRows::list(const std::vector<StreamInfo>& streams, const Batch& batch, Parameters& p, Backend& backend) {
  list(false, true, p, backend, [&](const Source& source) {
    for (std::size_t s = 0; s < streams.size() && s < batch.streams.size(); ++s) {
      const StreamData& x = batch.streams[s];
      if (streams[s].name != source.input || x.column_begin.empty()) continue;
      const auto first = static_cast<std::size_t>(x.column_begin.front()),
                 last = static_cast<std::size_t>(x.column_begin.back());
      add(x.indices.subspan(first, last - first), source.rows);
    }
  });
}

void SparseRows::list_gathered(bool first_part, std::span<const SparseView> inputs, Parameters& p, Backend& backend) {
  list(true, first_part, p, backend, [&](const Source& source) {
    const SparseView& x = inputs[source.gathered];
    if (x.columns == 0) return;
    add({x.indices + x.begin[0], x.indices + x.begin[x.columns]}, source.rows);
  });
}

void SparseRows::add(std::span<const std::int32_t> indices, std::size_t rows) {
  for (const std::int32_t index : indices) {
    const std::size_t begin = static_cast<std::size_t>(index) * rows;
    for (std::size_t row = begin; row < begin + rows; ++row) set_.add(static_cast<std::uint32_t>(row));
  }
}

}  // namespace tutti::graph
