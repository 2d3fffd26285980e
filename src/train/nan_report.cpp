// SPDX-License-Identifier: Apache-2.0
// What happens when a criterion is NaN, or a gradient is wrong.
#include "train/phase_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tutti/gradient_check.h"

namespace tutti {

void PhaseMetrics::stop_at_nan(std::int64_t minibatch, const std::string& what) const {
  throw Error(
      fmt::format("The training criterion is not a number (NAN).\n{} in epoch {}, minibatch {} of command '{}'.\n"
                  "fix: lower the learning rate, or clip gradients (clippingThresholdPerSample)",
                  what, t_.progress.epoch + 1, number_of(minibatch), t_.command));
}

// Reads the minibatch again to find the first NaN.
void PhaseMetrics::stop_at_nan(const DeferredNumericError& e) {
  std::string what = fmt::format("{}; computed again, it is a number", e.what());
  EpochPlan again = phase_.plan;
  again.start = e.position;
  t_.reader->start_epoch(again);
  try {
    if (const Batch* batch = t_.reader->next()) t_.network->explain_nan(*batch);
  } catch (const NumericError& found) {
    what = found.what();
  }
  stop_at_nan(e.minibatch, what);
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
