// SPDX-License-Identifier: Apache-2.0
#include "parallel/hybrid/gather_weights.h"

#include <algorithm>

#include "base/timeline.h"

namespace tutti {
namespace {

constexpr int weights_tag = 32004;

}  // namespace

// The host may read and write the weights while the device does nothing.
void GatherWeights::start(Parameters& p) {
  parameters_ = &p;
  transfers_.clear();
  const auto range = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::as_writable_bytes(p.weights.span().subspan(bounds_[r], bounds_[r + 1] - bounds_[r]));
  };
  for (int q = 0; q < ranks_.size(); ++q) {
    if (q == ranks_.rank()) continue;
    if (const auto theirs = range(q); !theirs.empty())
      transfers_.push_back(ranks_.plan_receive(q, weights_tag, theirs));
    if (const auto mine = range(ranks_.rank()); !mine.empty())
      transfers_.push_back(ranks_.plan_send(q, weights_tag, mine));
  }
}

WeightChange GatherWeights::after_update(const StepInfo& step) {
  if (step.rates.learning_rate == 0) return {};
  {
    const WorkTimer waiting(stats_.wait, Work::wait);
    parameters_->weights.memory().synchronize();
    for (const auto& t : transfers_) t->start();
    for (const auto& t : transfers_) t->wait();
  }
  const auto me = static_cast<std::size_t>(ranks_.rank());
  const auto sent = static_cast<std::int64_t>((bounds_[me + 1] - bounds_[me]) * (bounds_.size() - 2));
  stats_.values_sent += sent, stats_.bytes_sent += sent * static_cast<std::int64_t>(sizeof(float));
  return {};
}

}  // namespace tutti
