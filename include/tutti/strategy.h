// SPDX-License-Identifier: Apache-2.0
// strategy.h -- what the ranks tell each other, and when. Called by src/train/step_loop.cpp.
// Every rank calls every hook equally often: a collective that misses a rank never returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tutti/archive.h"
#include "tutti/communicator.h"
#include "tutti/exchange_stats.h"
#include "tutti/optimizer.h"
#include "tutti/parameters.h"
#include "tutti/work_queue.h"

namespace tutti {

// Learning rate and momentum of a sample; a rate of 0 updates nothing.
struct StepRates {
  double learning_rate = 0, momentum_per_sample = 0;
};

// Where reduced gradients go: the optimizer's update. `columns` is the N of the step they belong to (semantics 8.3),
// which in the buffered asynchronous mode is the step before.
class ReducedGradientSink {
 public:
  virtual ~ReducedGradientSink() = default;
  virtual void on_reduced(std::size_t chunk, std::int64_t columns) = 0;
  virtual void on_reduced(std::span<const std::size_t> chunks, std::int64_t columns) {
    for (const std::size_t chunk : chunks) on_reduced(chunk, columns);
  }
  // What the optimizer wants summed in this step, of so many columns. Whoever can sum contributions asks in
  // begin_step(), and calls contribute() for a chunk before it travels, or becomes global as it is.
  virtual Summed summed(std::int64_t columns) const {
    (void)columns;
    return Summed::gradients;
  }
  virtual void contribute(std::size_t chunk, std::int64_t columns, int ranks) {
    (void)chunk, (void)columns, (void)ranks;
  }
  virtual const float* mask() const { return nullptr; }
  // The optimizer is to forget its momentum: the weights have been moved by something else.
  virtual void reset_momentum() {}
  // With what updates are made in this epoch, for strategies that make them elsewhere.
  virtual StepRates rates() const { return {}; }
};

// Optimizers for strategies that update elsewhere than in the step loop: that of the run, whose state is saved, and new
// ones of the same kind.
struct OptimizerSource {
  std::function<Optimizer&()> of_run;
  std::function<std::unique_ptr<Optimizer>()> make;
};

// The step of the loop, in order:
//   begin_step(columns, sink); network backward -> chunk_ready(i) for every chunk; finish_gradients(metrics);
//   the loop's optimizer has been fed through `sink` by then; exchange_weights(samples).
// At an epoch's end: drain(sink); end_epoch(sink). Around validation and checkpoints: show_common_weights() and
// take_back_weights(); what is archived is archived between the two.
// A chunk may be updated while backward still runs: the network announces it only after its last use of those weights.
class Strategy : public GradientSink {
 public:
  // Before start().
  virtual void bind(const OptimizerSource&) {}
  // Leaves every rank with equal weights (broadcast from rank 0). Buffers are planned here, once.
  virtual void start(Parameters&) = 0;
  virtual void begin_epoch(std::int64_t epoch) { (void)epoch; }
  // Told before begin_step() what this rank, and what all ranks have of the coming minibatch.
  virtual std::int64_t step_columns(std::int64_t samples, std::int64_t columns, std::int64_t global_columns) {
    (void)samples;
    return steps_alone() ? columns : global_columns;
  }
  // `global` receives each chunk as soon as its global gradient stands in Parameters::gradients.
  // `columns` is the N of this step over the ranks that make one update together: what step_columns() has said.
  virtual void begin_step(std::int64_t columns, ReducedGradientSink& global) = 0;
  // Whether this rank computes its share, of so many samples, of the step that comes now; asked before begin_step(). A
  // rank that does not leaves the step out, up to its report.
  virtual bool joins_step(std::int64_t samples) {
    (void)samples;
    return true;
  }
  // Where gradients may be of no use (loss scaling). Whether a step is skipped by all ranks that make one
  // update together: such a strategy is told begin_step() after backward, when ReducedGradientSink::summed() says
  // `nothing` if so. Elsewhere gradients of no use count as zeros.
  virtual bool skips_steps_together() const { return false; }
  // Whether the gradients of all these ranks can be used. Before begin_step(), in every step.
  virtual bool agree(bool usable) { return usable; }
  // Whether nothing is made of gradients but their sum, which all these ranks get alike before anything changes: then
  // they need not be looked at before they travel, and nobody has to agree.
  virtual bool sums_only() const { return false; }
  // The local gradient of a chunk is complete (the network's call); its exchange may start.
  void chunk_ready(std::size_t chunk) override = 0;
  // All chunks were announced. Delivers the outstanding global chunks and makes this step's metrics global.
  virtual void finish_gradients(StepMetrics&) = 0;
  // Whether criterion and evaluations in those metrics may be of an earlier step, the same on all ranks. When no more
  // steps are to come for now, finish_deferred() does for what is missing what finish_gradients() does for a metrics.
  virtual bool takes_deferred_metrics() const { return false; }
  virtual void finish_deferred(StepMetrics&) {}
  virtual void exchange_weights(std::int64_t global_samples) { (void)global_samples; }
  // Epoch end, or a checkpoint that wants nothing in flight: completes what is pending and delivers it to `global`.
  virtual void drain(ReducedGradientSink& global) { (void)global; }
  // After drain(): what the metrics of finish_gradients() have not yet contained (only when they run a step behind).
  virtual StepMetrics pending_metrics_and_reset() { return {}; }
  // After drain(), where the metrics of finish_gradients() are this rank's own: what the others have added since the
  // last call.
  virtual StepMetrics metrics_of_others_and_reset() { return {}; }
  // Whether those metrics, added up over the ranks, count every sample once: false where another rank tells the same.
  virtual bool counts_once() const { return true; }
  // The epoch has no more steps: what the ranks still owe each other for it.
  virtual void end_epoch(ReducedGradientSink& global) { (void)global; }
  // Puts the weights that the run stands for (a centre, those of the last exchange) in the place of this rank's own,
  // and takes them back.
  virtual void show_common_weights() {}
  virtual void take_back_weights() {}
  // Between the two: somebody else has moved the weights that are shown, from `before`, for all ranks alike; they are
  // to stay so, and what ranks have of their own moves along.
  virtual void adopt_common_weights(std::span<const float> before) { (void)before; }
  // How often the ranks' weights have been changed by an exchange so far; equal on all ranks unless each goes its way.
  virtual std::int64_t weight_moves() const { return 0; }
  // Whether exchange_weights(global_samples), called now, may do so.
  virtual bool may_move_weights(std::int64_t global_samples) const {
    (void)global_samples;
    return true;
  }
  // Whether the answers of ReducedGradientSink::summed() are acted upon.
  virtual bool sums_contributions() const { return false; }
  // Whether the library of the GPUs makes its sums, in the course of a step.
  virtual bool sums_on_devices() const { return false; }
  // Whether each rank updates with its own gradients, so that optimizer state belongs to the rank.
  virtual bool steps_alone() const { return false; }
  // The sample of this epoch from which on the ranks share every minibatch (each reads its part of it, share rank of
  // size); before it each works through all of them alone (share 0 of 1). begin_sharing() is called when a run gets
  // there, between steps, also right after begin_epoch() when it was resumed behind that place.
  virtual std::int64_t shares_from(std::int64_t epoch) const {
    (void)epoch;
    return 0;
  }
  virtual void begin_sharing(std::int64_t epoch) { (void)epoch; }
  // Which share of shared minibatches this rank takes: share `rank` of `ranks`, none if `rank` is -1.
  struct Share {
    int rank = 0, ranks = 1;
    int part = 0, parts = 1;  // of it: only where work units are handed out to groups of ranks
  };
  virtual Share share(int rank, int ranks) const { return {rank, ranks}; }
  // The same where work units are handed out: `ranks` says how many shares a minibatch has.
  virtual Share share_of_units(int rank, int ranks) const { return share(rank, ranks); }
  // Samples of all ranks that were computed or left out in vain since the last call; after drain().
  virtual std::int64_t dropped_samples_and_reset() { return 0; }
  // Where given, the shares are work units of a queue instead (from start() on): ranks make different numbers of steps.
  // No hook of a step may then wait for what another rank does in its steps; they meet in drain(), when the data are
  // used up.
  virtual WorkQueue* work_queue() { return nullptr; }
  // The whole epoch.
  bool shares_data(std::int64_t epoch) const { return shares_from(epoch) == 0; }
  // Whose state the archives hold, where the name of the method does not say it.
  virtual std::string state_name() const { return {}; }
  virtual void archive(Archive&) {}         // residuals and whatever else the next step depends on; this rank's part
  virtual void archive_common(Archive&) {}  // what is equal on every rank, and serves any number of them
  // What a user should know before training so many samples (over all ranks); "" = nothing.
  virtual std::string advice(std::int64_t samples) const {
    (void)samples;
    return {};
  }
  virtual ExchangeStats exchange_stats_and_reset() { return {}; }
  virtual std::string describe() const = 0;  // for the settings printed at start
  // What the line "Starting minibatch loop" adds in this epoch, with a leading comma; "" without an exchange.
  virtual std::string loop_text(std::int64_t epoch) const {
    (void)epoch;
    return {};
  }
};

}  // namespace tutti
