// SPDX-License-Identifier: Apache-2.0
// What happens when a criterion is NaN, or a gradient is wrong.
#include "train/phase_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/exit_codes.h"
#include "comm/agreement.h"
#include "train/bad_sample.h"
#include "tutti/gradient_check.h"
#include "tutti/log.h"

namespace tutti {
namespace {

// "; sample 3 of the 16 of this rank, train.ctf:17", or "".
std::string bad_sample_text(Training& t, const Batch& batch) {
  const std::string sample = find_bad_sample(*t.network, *t.reader, batch, t.layer_ranks.get());
  return sample.empty() ? "" : "; " + sample;
}

}  // namespace

void PhaseMetrics::stop_at_nan(std::int64_t minibatch, const std::string& what) const {
  throw CodedError(
      kNotANumber,
      fmt::format("The training criterion is not a number (NAN).\n{} in epoch {}, minibatch {} of command '{}'.\n"
                  "fix: lower the learning rate, or clip gradients (clippingThresholdPerSample)",
                  what, t_.progress.epoch + 1, number_of(minibatch), t_.command));
}

// Reads the minibatch again to find the first NaN.
void PhaseMetrics::stop_at_nan(const DeferredNumericError& e) {
  std::string what = fmt::format("{}; computed again, it is a number", e.what()), sample;
  EpochPlan again = phase_.plan;
  again.start = e.position;
  t_.reader->start_epoch(again);
  try {
    const Batch* const batch = t_.reader->next();
    if (batch) sample = bad_sample_text(t_, *batch);
    if (batch) t_.network->explain_nan(*batch);
  } catch (const NumericError& found) {
    what = found.what();
  }
  stop_at_nan(e.minibatch, what + sample);
}

StepMetrics PhaseMetrics::bear_nan(const Batch& batch, const std::string& what, GradientSink& gradients) {
  const std::string all = phase_.settings.bears_nan ? what : what + bad_sample_text(t_, batch);
  if (on_nan() == OnNan::stop) stop_at_nan(batch.minibatch, all);
  StepMetrics metrics = announce_nan(t_, batch, gradients);
  if (phase_.settings.bears_nan) return metrics;
  nan_seen_ = true;
  log::warning_of_rank(fmt::format("{} in epoch {}, minibatch {}: {}", all, t_.progress.epoch + 1,
                                   number_of(batch.minibatch),
                                   on_nan() == OnNan::skip ? "the update is skipped" : "the run goes back"));
  if (on_nan() == OnNan::skip) {  // not a part of the epoch's results
    metrics.criterion = metrics.criterion_count = 0;
    for (auto& e : metrics.evaluations) e = {};
  }
  return metrics;
}

OnNan PhaseMetrics::on_nan() const { return phase_.settings.bears_nan ? OnNan::skip : t_.sgd.faults.on_nan; }

bool PhaseMetrics::rewinds_now() const {
  const ParallelMethod& method = phase_.method->method;
  const Communicator* const all = method.metrics.per_step;
  // With a delay some ranks see it a step later; all of them go back after the next drain.
  return nan_seen_ && on_nan() == OnNan::rewind && !method.traits.delayed && all && all->size() == t_.world->size();
}

void PhaseMetrics::rewind_if_needed() const {
  if (on_nan() == OnNan::rewind && !all_agree(*t_.world, !nan_seen_)) throw Rewind();
}

void PhaseMetrics::keep_statistics() {
  if (t_.sgd.faults.on_nan != OnNan::skip) return;
  statistics_.clear();
  for (const auto& s : t_.network->state()) statistics_.emplace_back(s.values.begin(), s.values.end());
}

void PhaseMetrics::restore_statistics() {
  auto state = t_.network->state();
  for (std::size_t i = 0; i < statistics_.size(); ++i) std::ranges::copy(statistics_[i], state[i].values.begin());
}

void check_gradients_or_stop(Training& t, const Batch& batch) {
  GradientCheckOptions options;
  options.tolerance = std::max(options.tolerance, std::pow(10.0, -static_cast<double>(t.sgd.significant_digits)));
  options.seed = static_cast<std::uint64_t>(t.progress.minibatches_in_epoch);
  t.network->scale_gradients(t.grad_scaler.value());  // and divide them
  const auto wrong = check_gradients(*t.network, batch, options);
  if (wrong.empty()) return;
  throw Error(
      fmt::format("cannot pass gradient checker: '{}', entry {}: {} by back-propagation, {} by differences "
                  "({} of the entries looked at differ) in epoch {}, minibatch {} of command '{}'",
                  wrong[0].parameter, wrong[0].index, wrong[0].analytic, wrong[0].numeric, wrong.size(),
                  t.progress.epoch + 1, t.progress.minibatches_in_epoch + 1, t.command));
}

StepMetrics announce_nan(Training& t, const Batch& batch, GradientSink& chunks) {
  Parameters& p = t.network->parameters();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Slice& s : p.slices)
    if (!s.sparse_gradient) std::fill_n(p.gradients.data() + s.offset, s.size(), nan);
  for (std::size_t i = 0; i < p.chunks.size(); ++i) chunks.chunk_ready(i);
  StepMetrics metrics;
  metrics.criterion = nan;
  metrics.criterion_count = static_cast<double>(batch.samples);
  metrics.columns = batch.columns;
  metrics.evaluations.assign(t.network->evaluations().size(), {0, static_cast<double>(batch.samples)});
  return metrics;
}

}  // namespace tutti
