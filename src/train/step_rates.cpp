// SPDX-License-Identifier: Apache-2.0
// Learning rates within an epoch. The rate of a minibatch is that of the schedule at its middle: neither the first
// minibatch of a warm-up nor the last of a cosine has rate 0, and the size of the minibatches hardly matters.
#include "train/training.h"

namespace tutti {

double scheduled_rate(const Training& t, double listed_rate, double sample_of_epoch) {
  const auto& schedule = t.sgd.learning_rate_schedule;
  if (!schedule) return listed_rate;
  const double epochs =
      static_cast<double>(t.progress.epoch) + sample_of_epoch / static_cast<double>(t.samples_per_epoch);
  return static_cast<float>(listed_rate * schedule->factor(epochs));
}

StepRates step_rates(const Training& t, const EpochSettings& settings, const Batch& batch) {
  const double middle = static_cast<double>(batch.position) + static_cast<double>(batch.global_samples) / 2;
  return {scheduled_rate(t, settings.learning_rate, middle), settings.momentum_per_sample};
}

}  // namespace tutti
