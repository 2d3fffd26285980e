// SPDX-License-Identifier: Apache-2.0
// --dry-run and `trainer plan`: everything that a training needs, for some steps and without a file.
#include "train/checkpointing.h"
#include "train/training.h"

namespace tutti {

TrialRun try_steps(Training& t, std::int64_t warm_up, std::int64_t steps) {
  t.network->make_current();
  t.optimizer->bind(t.network->parameters());
  if (t.average) t.average->bind(t.network->parameters());
  t.samples_per_epoch = t.sgd.epoch_size > 0 ? t.sgd.epoch_size : t.reader->sweep_samples();
  t.network->initialize_parameters();
  precompute(t);
  start_method(t);
  if (t.average) t.average->restart();
  const EpochSettings settings = current_settings(t);
  TrialRun run;
  for (const auto& s : t.network->parameters().slices) run.weights += s.shard ? s.shard->whole.elements() : s.size();
  run.minibatch = t.sgd.update_size(settings.minibatch);
  run.epoch_samples = t.samples_per_epoch;
  if (warm_up > 0) run_trial(t, settings, "trial", warm_up * run.minibatch - 1);
  t.progress.begin_epoch();
  const StepMetrics m = run_trial(t, settings, "trial", steps * run.minibatch - 1);
  run.samples = t.progress.samples_in_epoch, run.steps = t.progress.minibatches_in_epoch;
  run.criterion = m.criterion_count > 0 ? m.criterion / m.criterion_count : 0;
  run.times = t.times;
  return run;
}

}  // namespace tutti
