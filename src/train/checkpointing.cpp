// SPDX-License-Identifier: Apache-2.0
#include "train/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/activity.h"
#include "base/clock.h"
#include "base/exit_codes.h"
#include "base/memory.h"
#include "optim/optimizer_options.h"
#include "train/checkpoint.h"
#include "train/checkpoint_parts.h"
#include "train/cntk_checkpoint.h"
#include "train/file.h"
#include "train/memory_blocks.h"
#include "train/replica_check.h"
#include "train/run_metrics.h"
#include "train/saved_weights.h"
#include "train/whole_model.h"
#include "tutti/log.h"

namespace tutti {
namespace {

CheckpointState state_of(const Training& t) {
  const EpochSettings settings = current_settings(t);
  return {t.progress,
          settings.minibatch,
          settings.learning_rate,
          t.report->interval_metrics(),
          t.adjust,
          t.rate_factor,
          t.best,
          t.choice,
          t.samples_per_epoch,
          t.kernels.lines};
}

constexpr int kMostFailures = 3;  // checkpoints in a row that may fail

CheckpointFiles files_of(const Training& t) {
  CheckpointFiles files{t.model_path, t.sgd.max_epochs, t.sgd.keep_checkpoint_files};
  files.keep_models = t.sgd.faults.keep_checkpoints;
  files.best = t.best.unsaved;
  if (files.keep_models > 0) files.keep = files.keep_models;
  if (t.sgd.auto_adjust) {  // may go back by so many epochs
    files.keep = std::max(files.keep, t.sgd.auto_adjust->interval);
    if (files.keep_models > 0) files.keep_models = std::max(files.keep_models, t.sgd.auto_adjust->interval + 1);
  }
  return files;
}

// What rank 0 knows of its writer. Collective.
struct WriterState {
  int failures = 0;
  bool busy = false;
};
WriterState writer_state(Training& t) {
  // A small file is about to be complete; to wait for a large one could take longer than a step.
  constexpr std::size_t kSmall = 16'000'000;  // weights
  const std::chrono::milliseconds patience{t.network->parameters().size() < kSmall ? 500 : 0};
  WriterState state;
  if (t.world->rank() == 0) state = {t.checkpoint_writer.failures_in_a_row(), t.checkpoint_writer.busy(patience)};
  t.world->broadcast(0, writable_bytes(state));
  return state;
}

enum class Next { trains, ends };  // what the run does after a checkpoint

// `ended_early`: of CheckpointState.
void store(Training& t, Next next, std::int64_t ended_early = 0) {
  const Doing doing("saves a checkpoint");
  const auto start = Clock::now();
  const bool within_epoch = t.progress.samples_in_epoch > 0;
  const bool last = next == Next::ends && (within_epoch || t.progress.epoch > 0 || ended_early > 0);
  if (last && t.world->rank() == 0) t.checkpoint_writer.wait();
  const WriterState writer = writer_state(t);
  if (writer.failures >= kMostFailures)
    throw CodedError(kCheckpointsFail,
                     fmt::format("{} checkpoints in a row could not be written (the warnings above say why); the last "
                                 "one that could is intact\nfix: free space or make '{}' writable, and start again",
                                 writer.failures, directory_of(t.model_path)));
  if (within_epoch && writer.busy) {
    log::warning(
        fmt::format("a checkpoint within epoch {} is left out, as the one before is still being written. fix: "
                    "raise checkpointEverySamples, or use a faster disk",
                    t.progress.epoch + 1));
    return;
  }
  if (within_epoch || t.progress.epoch > 0) verify_common_weights(t);
  WholeModel model(*t.network, t.layer_ranks.get());
  model.gather();
  CheckpointState state = state_of(t);
  state.ended_early = ended_early;
  const CheckpointParts parts = parts_of(t, model.view);
  if (!last || writer.failures > 0 ||
      !save_last_checkpoint(files_of(t), state, parts, *t.world, t.checkpoint_writer,
                            t.world->rank() == 0 ? bytes_of_checkpoint(t) : 0))
    save_checkpoint(files_of(t), std::move(state), parts, *t.world, &t.checkpoint_writer);
  t.best.unsaved = false;
  const double seconds = seconds_since(start);
  record_event(t, "checkpoint", seconds);
  if (t.trace_level > 0 && (within_epoch || t.progress.epoch > 0))
    log::line(fmt::format("Checkpoint of epoch {}: training stood still for {:.6f} s",
                          t.progress.epoch + (within_epoch ? 1 : 0), seconds));
}

// The best model, if no checkpoint has saved it yet: its epoch is about to be undone.
void save_best(Training& t) {
  if (!t.best.unsaved) return;
  const SavedWeights saved(t);
  share_statistics(t);
  WholeModel model(*t.network, t.layer_ranks.get());
  model.gather();
  if (t.world->rank() == 0) save_best_model(t.model_path, parts_of(t, model.view), t.checkpoint_writer);
  t.best.unsaved = false;
}

// An archive of values by name.
class MemoryArchive final : public ByteArchive {
 public:
  MemoryArchive(StateCopy::Values& values, bool loading) : values_(values), loading_(loading) {}
  bool loading() const override { return loading_; }
  bool has(std::string_view name) const override { return !loading_ || values_.contains(name); }
  std::size_t text_size(std::string_view name, const std::string& now) override {
    return loading_ ? values_.find(name)->second.size() : now.size();
  }
  void entry(std::string_view name, EntryType, std::span<std::byte> bytes) override {
    if (loading_)
      std::ranges::copy(values_.find(name)->second, bytes.begin());
    else
      values_[std::string(name)].assign(bytes.begin(), bytes.end());
  }

 private:
  StateCopy::Values& values_;
  const bool loading_;
};

void archive_all(Training& t, Archive& a) {
  const Parameters& p = t.network->parameters();
  a("weights", std::span<float>(const_cast<float*>(p.weights.data()), p.size()));
  for (auto& s : t.network->state()) a("network/" + s.name, s.values);
  archive_exchange_state(t, a, WeightExchange::Section::common);
  archive_exchange_state(t, a, WeightExchange::Section::per_rank);
  t.grad_scaler.archive(a);
  t.optimizer->archive(a);
  if (t.average) t.average->archive(a);
}

CodedError cannot_go_on(ExitCode code, const std::string& why, const std::string& other_way) {
  return {code, fmt::format("this run cannot go on from an earlier one: {}\nfix: {}; or makeMode = false to start from "
                            "scratch, which replaces the earlier run's files; or another modelPath to keep them",
                            why, other_way)};
}

// Runs a part of resuming; its errors say what can be done. It fails on all ranks or none, except for lack of memory.
// If the files are still as intact as when the point was found, the configuration has changed. Collective.
template <class Part>
auto or_else(const std::string& other_way, const ResumePoint& point, Communicator& world, Part part) {
  try {
    return part();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {  // on other ranks an Error, whatever it is on rank 0
    throw cannot_go_on(is_readable(point, world) ? kWrongConfiguration : kFailed, e.what(), other_way);
  }
}

void load(Training& t, const ResumePoint& point) {
  WholeModel model(*t.network, t.layer_ranks.get());
  or_else("give the network the layers, sizes and constants that it had, and name the same criteria and evaluations",
          point, *t.world,
          [&] { load_model(point, model.view, *t.world), check_constants(t.network->state(), point.model); });
  model.scatter();
  if (t.average) t.average->restart();
  if (!t.network->precompute_nodes().empty())
    t.network->precompute_restored(load_graph(point.model, t.world, point.model_kind()));
  std::string other_way = "set the optimizer (gradUpdateType and momentum) as it was";
  if (!point.mid_epoch && point.model != t.model_path)
    other_way +=
        fmt::format("; or remove '{}' to go on from the last epoch's model with a fresh optimizer", point.checkpoint);
  const CheckpointState s = or_else(other_way, point, *t.world, [&] {
    return load_state(
        point, [&](Archive& a) { archive_optimizer(t, &a, true), archive_average(t, &a, true); }, *t.world);
  });
  t.progress = static_cast<const Progress&>(s);
  t.warm_start.over = false;  // unless the exchange's state, where there is one, says otherwise
  if (s.samples_before == 0) t.progress.samples_before = s.epoch * t.samples_per_epoch;  // the file does not tell
  t.adjust = s.adjust;
  t.rate_factor = s.rate_factor;
  t.best = s.best;
  forget_unused_settings(t, !has_cntk_state(point, *t.world));
  if (s.samples_per_epoch > 0 && s.samples_per_epoch != t.samples_per_epoch) {
    log::warning(
        fmt::format("the checkpoint was written with {0} samples per epoch, this run has {1}: the position in the data "
                    "is counted in epochs of {1} samples, so samples may be left out or used again. fix: epochSize = "
                    "{0}, or the data of the earlier run, unless the change is intended",
                    s.samples_per_epoch, t.samples_per_epoch));
    t.progress.resize_epoch(t.samples_per_epoch);
  }
  t.resumed = Resumed{point, s.interval_metrics};
}

// Of its epoch. Collective.
std::int64_t samples_of(const ResumePoint& point, Communicator& world) {
  std::int64_t samples = 0;
  on_rank_0(world,
            [&] { samples = ContainerReader(point.checkpoint, "checkpoint").integer("state/samples in epoch"); });
  world.broadcast(0, writable_bytes(samples));
  return samples;
}

// On each rank for itself, as only the state of some may not fit. The file was intact when it was opened.
RankStateReport load_exchange(Training& t, const ResumePoint& point) {
  try {
    return load_exchange_state(point, parts_of(t, view_model(*t.network)), *t.world);
  } catch (const CodedError&) {
    throw;
  } catch (const Error& e) {
    throw cannot_go_on(kWrongConfiguration, fmt::format("ParallelTrain does not fit the checkpoint: {}", e.what()),
                       "set ParallelTrain as it was (the method and what it exchanges, outerOptimizer, fragments, "
                       "overlap)");
  }
}

}  // namespace

Start resume(Training& t) {
  std::vector<std::string> warnings;
  if (t.world->rank() == 0) create_directories(directory_of(t.model_path));
  if (!t.make_mode) {
    if (t.world->rank() == 0) discard_checkpoints(t.model_path);
    return Start::fresh;
  }
  auto point = find_resume_point(t.model_path, t.sgd.max_epochs, *t.world, warnings);
  for (const auto& w : warnings) log::warning(w);
  if (!point) {
    refuse_later_epochs(t.model_path, t.sgd.max_epochs, *t.world);
    return Start::fresh;
  }
  if (point->finished && point->model != t.model_path) {
    log::line(
        fmt::format("'{}' has the {} epochs of maxEpochs: it becomes the final model.", point->model, point->epoch));
    point = copy_model(*point, t.model_path, *t.world);
  }
  if (point->finished) return log_finished(*point, t.model_path), Start::finished;
  if (point->model == t.model_path)
    log::line(fmt::format("The final model '{}' has {} epochs and maxEpochs is now {}: training continues from it.",
                          t.model_path, point->epoch, t.sgd.max_epochs));
  log::line(fmt::format("Starting from checkpoint. Loading network from '{}'.", point->model));
  load(t, *point);
  return Start::resumed;
}

StateCopy copy_state(Training& t) {
  StateCopy copy{{}, t.progress};
  const CommonWeights common(*t.parallel->method.weights);
  MemoryArchive a(copy.values, false);
  archive_all(t, a);
  return copy;
}

void restore_state(Training& t, StateCopy& copy) {
  t.progress = copy.progress;
  MemoryArchive a(copy.values, true);
  archive_all(t, a);
}

void start_method(Training& t) {
  t.run_optimizer->now = t.optimizer.get();
  broadcast_weights(*t.world, t.network->parameters());
  for (RunningMethod* m : {t.warm_up.get(), t.parallel.get()}) start(m->method, t.network->parameters());
}

bool roll_back(Training& t, std::int64_t epoch) {
  t.checkpoint_writer.wait();
  std::vector<std::string> warnings;
  const auto point = find_epoch(t.model_path, epoch, t.sgd.max_epochs, *t.world, warnings);
  for (const auto& w : warnings) log::warning(w);
  if (!point || (epoch > 0 && point->checkpoint.empty())) {
    log::warning(
        fmt::format("the model of epoch {} or its state cannot be loaded, so the training does not go back to "
                    "it. fix: see the warnings above",
                    epoch));
    return false;
  }
  log::line(
      fmt::format("Loading (rolling back to) previous model with best training-criterion value: {}.", point->model));
  save_best(t);
  t.optimizer = t.run_optimizer->make();
  t.optimizer->bind(t.network->parameters());
  const BestModel best = t.best;  // counts the epoch that is undone
  const std::int64_t begun = t.progress.epoch;
  const double factor = t.rate_factor;
  load(t, *point);
  t.adjust.retried_to = begun;
  t.report->undo_epochs_after(epoch);
  t.best = best;
  t.rate_factor = factor;
  if (t.world->rank() == 0) discard_epochs(t.model_path, epoch, begun, t.sgd.max_epochs);
  start_method(t);
  restore_method(t);
  return true;
}

void rewind(Training& t) {
  t.checkpoint_writer.wait();
  std::vector<std::string> warnings;
  const auto find = [&] { return find_resume_point(t.model_path, t.sgd.max_epochs, *t.world, warnings); };
  auto point = find();
  // Its weights may be finite and led to NaN all the same.
  if (point && point->mid_epoch && t.rewound_to == std::pair(point->model, samples_of(*point, *t.world))) {
    if (t.world->rank() == 0) discard_epochs(t.model_path, point->epoch, point->epoch, t.sgd.max_epochs);
    point = find();
  }
  for (const auto& w : warnings) log::warning(w);
  const double factor = t.rate_factor * t.sgd.faults.nan_rate_factor;
  if (++t.rewinds > t.sgd.faults.most_rewinds || !point || point->finished)
    throw CodedError(kNotANumber,
                     fmt::format("The training criterion is not a number (NAN) after {} rewinds.\nfix: lower "
                                 "the learning rate, or clip gradients (clippingThresholdPerSample)",
                                 t.rewinds - 1));
  log::warning(fmt::format("rewind {} of at most {}: training goes on from '{}' with {:g} times the learning rate",
                           t.rewinds, t.sgd.faults.most_rewinds, point->model, factor));
  t.optimizer = t.run_optimizer->make();
  t.optimizer->bind(t.network->parameters());
  load(t, *point);
  t.rewound_to = {point->model, t.progress.samples_in_epoch};
  t.rate_factor = factor;
  start_method(t);
  restore_method(t);
}

void save_final_model(Training& t) {
  if (t.progress.samples_in_epoch > 0) share_statistics(t);  // at the ends of epochs they are common
  t.progress.begin_epoch();
  const SavedWeights saved(t);
  store(t, Next::ends, t.progress.epoch < t.sgd.max_epochs ? t.sgd.max_epochs : 0);
}

void restore_method(Training& t) {
  const auto& point = t.resumed->point;
  const RankStateReport report = load_exchange(t, point);
  if (!report.lost.empty())
    log::warning(fmt::format(
        "the exchange starts without the local state of each rank{}: {}",
        t.parallel->method.traits.own_updates
            ? " (weights since the last exchange, optimizer, and state of the method such as block momentum)"
            : " (residuals)",
        report.lost));
  else if (report.ranks > 0 && report.ranks != t.world->size())
    log::line(
        fmt::format("The checkpoint was written on {} rank{}; {} continue{} with the same data in the same order.",
                    report.ranks, report.ranks == 1 ? "" : "s", t.world->size(), t.world->size() == 1 ? "s" : ""));
  if (!report.gone.empty()) {
    const std::int64_t first = t.world->size(), last = report.ranks - 1;
    log::warning(fmt::format("lost with {} of '{}': {}",
                             first == last ? fmt::format("rank {}", last) : fmt::format("ranks {} to {}", first, last),
                             point.checkpoint, report.gone));
  }
  rewind_metrics(t);
}

void save_initial_model(Training& t) {
  try {
    store(t, Next::trains);
  } catch (const CodedError&) {
    throw;
  } catch (const Error& e) {
    throw CodedError(kCheckpointsFail, fmt::format("the initial model could not be saved: {}\nfix: free space or make "
                                                   "'{}' writable, and start again",
                                                   e.what(), directory_of(t.model_path)));
  }
  if (t.world->rank() == 0) date_back_leftovers(t.model_path, t.sgd.max_epochs);
}

void checkpoint_at_epoch_end(Training& t) {
  if (t.trace_level > 0)
    log::line(
        fmt::format("SGD: Saving checkpoint model '{}'", model_name(t.model_path, t.progress.epoch, t.sgd.max_epochs)));
  store(t, t.progress.epoch == t.sgd.max_epochs ? Next::ends : Next::trains);
}

bool checkpoint_due(const Training& t, std::int64_t samples_of_step) {
  const std::int64_t every = t.sgd.checkpoint_every_samples, now = t.progress.samples_in_epoch;
  if (every <= 0 || now >= t.samples_per_epoch) return false;  // the epoch's own checkpoint follows at once
  return now / every != (now - samples_of_step) / every;
}

std::int64_t next_checkpoint(const Training& t) {
  const std::int64_t every = t.sgd.checkpoint_every_samples, never = std::numeric_limits<std::int64_t>::max();
  if (every <= 0) return never;
  const std::int64_t next = (t.progress.samples_in_epoch / every + 1) * every;
  return next < t.samples_per_epoch ? next : never;
}

void checkpoint(Training& t, bool ends) {
  verify_group_weights(t);
  const SavedWeights saved(t);
  const SavedStatistics statistics(t);
  store(t, ends ? Next::ends : Next::trains);
}

std::uint64_t checkpoint_memory(const Training& t) {
  return t.progress.epoch + 1 < t.sgd.max_epochs || t.sgd.checkpoint_every_samples > 0 ? bytes_of_checkpoint(t) : 0;
}

void prepare_checkpoints(Training& t) {
  if (t.resumed && t.resumed->point.model == t.model_path) {
    ResumePoint& point = t.resumed->point;
    point = copy_model(point, numbered_model_name(t.model_path, point.epoch), *t.world);
  }
  if (t.world->rank() != 0) return;
  remove_older_models(files_of(t), t.progress.epoch);
  if (t.begins && *t.begins) (*t.begins)();
  const std::uint64_t bytes = checkpoint_memory(t);
  if (bytes == 0) return;
  log::line(fmt::format("Memory for the copy of a checkpoint: {}, on rank 0", bytes_text(static_cast<double>(bytes))));
  t.checkpoint_writer.submit({"", nullptr, [sizes = sizes_of_checkpoint(t)] { MemoryBlocks::prepare(sizes); }});
}

void finish_checkpoints(Training& t) {
  constexpr int kAttempts = 5;
  const Doing doing("waits until the checkpoint is on disk");
  std::string why;
  if (t.world->rank() == 0) why = t.checkpoint_writer.finish(kAttempts);
  broadcast_text(*t.world, why);
  if (!why.empty())
    throw CodedError(kCheckpointsFail,
                     fmt::format("the last checkpoint could not be saved in {} attempts: {}\nfix: free "
                                 "space or make '{}' writable, and start again: the run goes on from "
                                 "the checkpoint before",
                                 kAttempts, why, directory_of(t.model_path)));
}

void share_statistics(Training& t) {
  if (t.world->size() > 1)
    t.network->average_statistics([&](std::span<double> sums) { t.world->all_reduce_sum(sums); });
}

}  // namespace tutti
