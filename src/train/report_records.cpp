// SPDX-License-Identifier: Apache-2.0
// The records of the lines of a report, for the block `metrics`.
#include <algorithm>
#include <array>

#include "comm/agreement.h"
#include "train/metrics/metrics.h"
#include "train/report.h"

namespace tutti {

std::int64_t Report::position() const {
  const std::int64_t now = at_.position + samples_here_;
  return at_.end > 0 ? std::min(now, at_.end) : now;  // sequences may go beyond the end of an epoch
}

MetricsRecord Report::record(const char* event, const std::vector<StepMetrics::Evaluation>& values) const {
  MetricsRecord r{event, position()};
  r.place = {{"epoch", at_.epoch}, {"epochs", at_.epochs}, {"minibatch", minibatch_}};
  for (std::size_t i = 0; i < names_.size() && i < values.size(); ++i)
    r.results.push_back({names_[i].name, values[i].count == 0 ? 0 : values[i].sum / values[i].count, values[i].count,
                         is_error_rate(names_[i]), larger_is_better(names_[i])});
  return r;
}

namespace {

constexpr std::array kIntervalTimes{"compute_seconds", "read_seconds",   "update_seconds", "encode_seconds",
                                    "wait_seconds",    "decode_seconds", "bytes_sent"};

std::array<double, kIntervalTimes.size()> interval_times(const EpochTimes& before, const EpochTimes& now) {
  const ExchangeStats &x = now.exchange, &y = before.exchange;
  return {now.network - before.network,
          now.read - before.read,
          now.update - before.update,
          x.encode - y.encode,
          x.wait - y.wait,
          x.decode - y.decode,
          static_cast<double>(x.bytes_sent - y.bytes_sent)};
}

}  // namespace

// Of all ranks.
double Report::interval_speed(double seconds) const {
  return static_cast<double>(samples_of_interval_) / std::max(seconds, 1e-9);
}

// Times since the last interval; those among the measures are of this rank.
void Report::record_interval(double seconds, const EpochTimes& now) {
  const auto mine = interval_times(interval_times_, now);
  const auto all = ranks_ ? from_all(*ranks_, mine) : std::vector{mine};
  if (!metrics_) return;
  MetricsRecord r = record("interval", criterion_first(since_));
  r.place.emplace_back("first_minibatch", interval_begin_ + 1);
  r.measures = {{"seconds", seconds}, {"samples_per_second", interval_speed(seconds)}};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    r.measures.emplace_back(kIntervalTimes[i], mine[i]);
    if (!ranks_) continue;
    r.ranks.emplace_back(kIntervalTimes[i], std::vector<double>());
    for (const auto& rank : all) r.ranks.back().second.push_back(rank[i]);
  }
  metrics_->write(r);
}

void Report::record_epoch(const EpochFigures& f, const ValuesByRank& by_rank) const {
  if (!metrics_) return;
  MetricsRecord r = record("epoch", criterion_first(epoch_));
  r.measures = {{"seconds", f.seconds},
                {"samples_per_second", static_cast<double>(samples_here_) / std::max(f.seconds, 1e-9)},
                {"total_samples_seen", static_cast<double>(f.total_samples_seen)},
                {"learning_rate_per_sample", f.learning_rate},
                {"momentum_per_sample", f.momentum},
                {"minibatch_size", static_cast<double>(f.minibatch)}};
  r.ranks = by_rank;
  metrics_->write(r);
}

void Report::record_validation(const std::vector<StepMetrics::Evaluation>& values) const {
  if (metrics_) metrics_->write(record("validation", values));
}

}  // namespace tutti
