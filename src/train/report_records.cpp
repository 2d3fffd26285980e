// SPDX-License-Identifier: Apache-2.0
// The records of the lines of a report, for the block `metrics`.
#include <algorithm>

#include "train/metrics/metrics.h"
#include "train/report.h"

namespace tutti {

std::int64_t Report::position() const {
  const std::int64_t now = at_.position + samples_here_, end = at_.epoch * at_.samples;
  return at_.samples > 0 ? std::min(now, end) : now;  // sequences may go beyond the end of an epoch
}

MetricsRecord Report::record(const char* event, const std::vector<StepMetrics::Evaluation>& values) const {
  MetricsRecord r{event, position()};
  r.place = {{"epoch", at_.epoch}, {"epochs", at_.epochs}, {"minibatch", minibatch_}};
  for (std::size_t i = 0; i < names_.size() && i < values.size(); ++i)
    r.results.push_back({names_[i].name, values[i].count == 0 ? 0 : values[i].sum / values[i].count, values[i].count,
                         is_error_rate(names_[i])});
  return r;
}

// Times are those of this rank since the last interval.
void Report::record_interval(double seconds, const EpochTimes& now) {
  MetricsRecord r = record("interval", criterion_first(since_));
  r.place.emplace_back("first_minibatch", interval_begin_ + 1);
  const EpochTimes& before = interval_times_;
  const ExchangeStats &x = now.exchange, &y = before.exchange;
  r.measures = {{"seconds", seconds},
                {"samples_per_second", static_cast<double>(since_.samples) / std::max(seconds, 1e-9)},
                {"compute_seconds", now.network - before.network},
                {"read_seconds", now.read - before.read},
                {"update_seconds", now.update - before.update},
                {"encode_seconds", x.encode - y.encode},
                {"wait_seconds", x.wait - y.wait},
                {"decode_seconds", x.decode - y.decode},
                {"bytes_sent", static_cast<double>(x.bytes_sent - y.bytes_sent)}};
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
