// SPDX-License-Identifier: Apache-2.0
#include "parallel/groups/group_parts.h"

#include <array>
#include <bit>

#include "base/nap.h"

namespace tutti {

ExchangeStats stats_of_levels(ExchangeStats within, const ExchangeStats& between) {
  within.bytes_between = 0;
  within += between;
  within.groups = true;
  within.bytes_between = between.bytes_sent;
  return within;
}

void LeaderBroadcast::broadcast(bool& delivered, std::int64_t& columns, StepMetrics& metrics) {
  const bool leads = comm_.rank() == 0;
  std::array<std::int64_t, 5> fixed{delivered, columns, static_cast<std::int64_t>(metrics.evaluations.size()),
                                    metrics.samples, metrics.columns};
  comm_.broadcast(0, std::as_writable_bytes(std::span(fixed)));
  delivered = fixed[0] != 0, columns = fixed[1];
  metrics.evaluations.resize(static_cast<std::size_t>(fixed[2]));
  metrics.samples = fixed[3], metrics.columns = fixed[4];

  words_.clear();
  const auto add = [&](double v) { words_.push_back(std::bit_cast<std::int64_t>(v)); };
  add(metrics.criterion), add(metrics.criterion_count);
  for (const auto& e : metrics.evaluations) add(e.sum), add(e.count);
  comm_.broadcast(0, std::as_writable_bytes(std::span(words_)));
  if (leads) return;
  const std::int64_t* at = words_.data();
  const auto take = [&](double& v) { v = std::bit_cast<double>(*at++); };
  take(metrics.criterion), take(metrics.criterion_count);
  for (auto& e : metrics.evaluations) take(e.sum), take(e.count);
}

SleepingBroadcast::SleepingBroadcast(Communicator& group) : leads_(group.rank() == 0) {
  const auto bytes = std::as_writable_bytes(std::span(words_));
  if (!leads_) transfers_.push_back(group.plan_receive(0, 0, bytes));
  for (int rank = 1; leads_ && rank < group.size(); ++rank) transfers_.push_back(group.plan_send(rank, 0, bytes));
}

void SleepingBroadcast::broadcast(Words& words) {
  if (leads_) {
    words_ = words;
    for (auto& t : transfers_) t->start();
    for (auto& t : transfers_) t->wait();
    return;
  }
  transfers_[0]->start();
  for (Nap nap; !transfers_[0]->done();) nap.nothing_happened();
  words = words_;
}

}  // namespace tutti
