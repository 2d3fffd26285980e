// SPDX-License-Identifier: Apache-2.0
#include "strategy/gradient_sums.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "base/clock.h"

namespace tutti {

void LibrarySums::start(Parameters& parameters) {
  parameters_ = &parameters;
  pieces_ = all_pieces(parameters);
  broadcast_weights(comm_, parameters);
  all_lines_.assign(parameters.slices.size(), {});
  for (std::size_t s = 0; s < parameters.slices.size(); ++s) {
    if (!parameters.slices[s].sparse_gradient) continue;
    all_lines_[s].resize(parameters.slices[s].lines());
    std::iota(all_lines_[s].begin(), all_lines_[s].end(), 0u);
  }
}

void LibrarySums::finish_gradients(Tally& tally) {
  tallies_.begin(tally);
  const auto start = Clock::now();
  comm_.all_reduce_sum(parameters_->gradients.span());
  stats_.wait += seconds_since(start);
  ++stats_.exchanges;
  if (comm_.size() > 1) {
    count_library_sum(stats_, parameters_->size(), comm_.size());
    // Sums have entries wherever any rank has one.
    for (std::size_t s = 0; s < all_lines_.size(); ++s)
      if (!all_lines_[s].empty()) parameters_->touched[s].assign(all_lines_[s].begin(), all_lines_[s].end());
  }
  global_->globals_ready(pieces_, columns_);
  tally = tallies_.finish();
}

ExchangeStats LibrarySums::take_stats() {
  ExchangeStats stats = std::exchange(stats_, {});
  stats.bytes_sent += tallies_.take_bytes();
  return stats;
}

std::string LibrarySums::describe() const {
  return fmt::format("ASA on {} rank{}, gradients summed by the MPI library{}", comm_.size(),
                     comm_.size() == 1 ? "" : "s", remark_);
}

}  // namespace tutti
