// SPDX-License-Identifier: Apache-2.0
#include "parallel/library_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/timeline.h"
#include "collective/all_reduce.h"
#include "parallel/local_gradients.h"
#include "tutti/log.h"

namespace tutti {

void LibraryGradients::start(Parameters& parameters) {
  parameters_ = &parameters;
  chunks_ = all_chunks(parameters);
  std::size_t rows = 0;
  for (const Slice& s : parameters.slices) rows += s.sparse_gradient ? s.sparse_row_count() : 0;
  listed_.resize(rows);
}

// Sums have a row wherever any rank has one.
void LibraryGradients::unite_lists() {
  if (listed_.empty()) return;
  std::fill(listed_.begin(), listed_.end(), 0.0f);
  const auto each = [&](const auto& body) {
    std::size_t first = 0;
    for (std::size_t i = 0; i < parameters_->slices.size(); ++i) {
      if (!parameters_->slices[i].sparse_gradient) continue;
      body(parameters_->sparse_rows[i], listed_.data() + first, parameters_->slices[i].sparse_row_count());
      first += parameters_->slices[i].sparse_row_count();
    }
  };
  each([](const auto& list, float* ranks, std::size_t) {
    for (const std::uint32_t row : list) ranks[row] = 1;
  });
  comm_.all_reduce_sum(std::span(listed_));
  count_library_sum(stats_, listed_.size(), comm_.size());
  each([](auto& list, const float* ranks, std::size_t rows) {
    list.clear();
    for (std::uint32_t row = 0; row < rows; ++row)
      if (ranks[row] > 0) list.push_back(row);
  });
}

void LibraryGradients::finish_step() {
  const double waited = stats_.wait;
  {
    const WorkTimer waiting(stats_.wait, Work::wait);
    comm_.all_reduce_sum(parameters_->gradients.span());
    if (comm_.size() > 1) {
      count_library_sum(stats_, parameters_->size(), comm_.size());
      unite_lists();
    }
  }
  ++stats_.exchanges;
  if (print_every_ > 0 && ++sums_ % print_every_ == 0) {
    const double seconds = stats_.wait - waited;
    log::line(fmt::format("Actual gradient aggregation time: {:.6g}", seconds));
    log::record("exchange", {{"seconds", seconds}, {"wait_seconds", seconds}});
  }
  sink_->on_reduced(chunks_, columns_);
}

ParallelMethod make_library_sums(Communicator& comm, std::int64_t print_every, const std::string& remark) {
  ParallelMethod m;
  m.gradients = std::make_unique<LibraryGradients>(comm, print_every);
  m.data.share = m.data.unit_share = {comm.rank(), comm.size()};
  m.metrics.per_step = m.update_ranks = &comm;
  m.traits.text = fmt::format("ASA on {} rank{}, gradients summed by the MPI library{}", comm.size(),
                              comm.size() == 1 ? "" : "s", remark);
  return m;
}

}  // namespace tutti
