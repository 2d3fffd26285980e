// SPDX-License-Identifier: Apache-2.0
#include "train/checkpointing.h"

#include <fmt/format.h>

#include "train/checkpoint.h"
#include "train/file.h"
#include "tutti/log.h"

namespace tutti {
namespace {

CheckpointState state_of(const Training& t) {
  const auto at = static_cast<std::size_t>(t.progress.epoch);
  CheckpointState s;
  s.epoch = t.progress.epoch;
  s.samples_in_epoch = t.progress.samples_in_epoch;
  s.minibatches_in_epoch = t.progress.minibatches_in_epoch;
  s.total_samples_seen = t.progress.total_samples_seen;
  s.minibatch_size = t.sgd.minibatch_size.at(at);
  s.learning_rate = t.sgd.learning_rate_per_sample(at);
  s.epoch_tally = t.progress.epoch_tally;
  s.interval_tally = t.report->interval_tally();
  return s;
}

void archive_common_state(Training& t, Archive& a) { t.strategy->archive_common(a); }

void archive_rank_state(Training& t, Archive& a) {
  t.strategy->archive(a);
  if (!t.strategy->steps_alone()) return;
  t.optimizer->archive(a);
  for (auto& s : t.network->state()) a("network/" + s.name, s.values);  // running statistics of this rank's data
}

void store(Training& t) {
  CheckpointParts parts{view_model(*t.network), t.optimizer.get(), [&](Archive& a) { archive_common_state(t, a); },
                        [&](Archive& a) { archive_rank_state(t, a); }, t.strategy_name};
  save_checkpoint({t.model_path, t.sgd.max_epochs, t.sgd.keep_checkpoint_files}, state_of(t), parts, *t.world);
}

}  // namespace

Start resume(Training& t) {
  std::vector<std::string> warnings;
  if (t.world->rank() == 0) create_directories(directory_of(t.model_path));
  if (!t.make_mode) {
    if (t.world->rank() == 0) discard_checkpoints(t.model_path);
    return Start::fresh;
  }
  const auto point = find_resume_point(t.model_path, t.sgd.max_epochs, *t.world, warnings);
  for (const auto& w : warnings) log::warning(w);
  if (!point) return Start::fresh;
  if (point->finished) return Start::finished;
  log::line(fmt::format("Starting from checkpoint. Loading network from '{}'.", point->model));
  auto view = view_model(*t.network);
  load_model(*point, view, *t.world);
  const CheckpointState s = load_state(*point, *t.optimizer, *t.world);
  t.progress = {s.epoch, s.samples_in_epoch, s.minibatches_in_epoch, s.total_samples_seen, s.epoch_tally};
  t.resumed = Resumed{*point, s.interval_tally};
  return Start::resumed;
}

void restore_strategy(Training& t) {
  const auto& point = t.resumed->point;
  std::string lost = load_common_state(
      point, [&](Archive& a) { archive_common_state(t, a); }, t.strategy_name, *t.world);
  if (lost.empty())
    lost = load_rank_state(
        point, [&](Archive& a) { archive_rank_state(t, a); }, t.strategy_name, *t.world);
  if (!lost.empty())
    log::warning(fmt::format(
        "the exchange starts without what each rank had for itself{}: {}",
        t.strategy->steps_alone() ? " (weights since the last exchange, optimizer)" : " (residuals)", lost));
}

void save_initial_model(Training& t) { store(t); }

void checkpoint_at_epoch_end(Training& t) {
  if (t.trace_level > 0)
    log::line(
        fmt::format("SGD: Saving checkpoint model '{}'", model_name(t.model_path, t.progress.epoch, t.sgd.max_epochs)));
  store(t);
}

bool checkpoint_due(const Training& t, std::int64_t samples_of_step) {
  const std::int64_t every = t.sgd.checkpoint_every_samples, now = t.progress.samples_in_epoch;
  if (every <= 0 || now >= t.samples_per_epoch) return false;  // the epoch's own checkpoint follows at once
  return now / every != (now - samples_of_step) / every;
}

void checkpoint(Training& t) {
  share_statistics(t);
  store(t);
}

void share_statistics(Training& t) {
  if (t.world->size() > 1)
    t.network->average_statistics([&](std::span<double> sums) { t.world->all_reduce_sum(sums); });
}

}  // namespace tutti
