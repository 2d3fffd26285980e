// SPDX-License-Identifier: Apache-2.0
// The inner loop: forward, backward, exchange, update, report. Called by train() once per epoch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/checkpointing.h"
#include "train/training.h"
#include "tutti/gradient_check.h"

namespace tutti {
namespace {

// The end of the way of a gradient: each piece updates its weights as soon as its global sum is there.
class Update final : public GlobalSink {
 public:
  Update(Optimizer& optimizer, const StepScalarsOfEpoch& scalars) : optimizer_(optimizer), scalars_(scalars) {}

  void next_step() { begun_ = false; }
  void global_ready(std::size_t piece, std::int64_t columns) override {
    if (!scalars_.update || columns == 0) return;
    const auto start = Clock::now();
    if (!begun_) optimizer_.begin_step({scalars_.learning_rate, scalars_.momentum_per_sample, columns});
    begun_ = true;
    optimizer_.update(piece);
    seconds_ += seconds_since(start);
  }
  void reset_momentum() override { optimizer_.reset_momentum(); }
  double seconds() const { return seconds_; }

 private:
  Optimizer& optimizer_;
  StepScalarsOfEpoch scalars_;
  bool begun_ = false;
  double seconds_ = 0;
};

[[noreturn]] void stop_at_nan(const Training& t, const std::string& what) {
  throw Error(
      fmt::format("The training criterion is not a number (NAN).\n{} in epoch {}, minibatch {} of command '{}'.\n"
                  "fix: lower the learning rate, or clip gradients (clippingThresholdPerSample)",
                  what, t.progress.epoch + 1, t.progress.minibatches_in_epoch + 1, t.command));
}

// gradientcheck = true: before the step, on this rank's share.
void check_gradients_or_stop(Training& t, const Batch& batch) {
  GradientCheckOptions options;
  options.tolerance = std::max(options.tolerance, std::pow(10.0, -static_cast<double>(t.sgd.significant_digits)));
  options.seed = static_cast<std::uint64_t>(t.progress.minibatches_in_epoch);
  const auto wrong = check_gradients(*t.network, batch, options);
  if (wrong.empty()) return;
  throw Error(
      fmt::format("cannot pass gradient checker: '{}', entry {}: {} by back-propagation, {} by differences "
                  "({} of the entries looked at differ) in epoch {}, minibatch {} of command '{}'",
                  wrong[0].parameter, wrong[0].index, wrong[0].analytic, wrong[0].numeric, wrong.size(),
                  t.progress.epoch + 1, t.progress.minibatches_in_epoch + 1, t.command));
}

// Every rank goes on with its exchange, and all see that the result is no number.
Tally announce_nan(Training& t, const Batch& batch) {
  Parameters& p = t.network->parameters();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Slice& s : p.slices)
    if (!s.sparse_gradient) std::fill_n(p.gradients.data() + s.offset, s.size(), nan);
  for (std::size_t i = 0; i < p.pieces.size(); ++i) t.strategy->piece_ready(i);
  Tally tally;
  tally.criterion = nan;
  tally.criterion_count = static_cast<double>(batch.samples);
  tally.columns = batch.columns;
  tally.evaluations.assign(t.network->evaluations().size(), {0, static_cast<double>(batch.samples)});
  return tally;
}

}  // namespace

void run_epoch(Training& t, const EpochPlan& plan, const StepScalarsOfEpoch& scalars, std::int64_t until) {
  Strategy& strategy = *t.strategy;
  Update update(*t.optimizer, scalars);
  const auto start = Clock::now();
  const bool alone = strategy.steps_alone();
  double reading = 0, working = 0;
  const auto settle = [&] {
    update.next_step();
    strategy.settle(update);
    t.report->add(strategy.take_pending_tally());
    t.report->add_to_epoch(strategy.take_tally_of_others());
    t.progress.epoch_tally = t.report->epoch_tally();
  };

  t.network->forget_states();
  t.network->bind(t.reader->streams());  // validation may have bound another reader's
  t.reader->start_epoch(plan);
  while (t.progress.samples_in_epoch < until) {
    const auto asked = Clock::now();
    const Batch* batch = t.reader->next();
    const auto got = Clock::now();
    reading += std::chrono::duration<double>(got - asked).count();
    if (!batch) break;

    t.fault_hook.before_step();
    if (t.traces) trace_nodes(t, *batch);
    if (t.sgd.gradient_check) check_gradients_or_stop(t, *batch);
    update.next_step();
    strategy.begin_step(alone ? batch->columns : batch->global_columns, update);
    Tally tally;
    try {
      tally = t.network->forward_backward(*batch, strategy);
    } catch (const NumericError& e) {
      if (!scalars.bears_nan) stop_at_nan(t, e.what());
      tally = announce_nan(t, *batch);
    }
    tally.samples = batch->samples;
    strategy.finish_gradients(tally);
    if (!strategy.follows_device()) t.network->finish();
    strategy.exchange_weights(batch->global_samples);
    working += seconds_since(got);

    if (std::isnan(tally.criterion) && !scalars.bears_nan) stop_at_nan(t, "The sum over the ranks is not a number");
    t.progress.samples_in_epoch = batch->position + batch->global_samples;
    ++t.progress.minibatches_in_epoch;
    t.report->step(tally, batch->global_samples);
    if (!scalars.trial && checkpoint_due(t, batch->global_samples)) {
      settle();
      strategy.show_common_weights();
      checkpoint(t);
      strategy.take_back_weights();
    }
  }
  settle();
  strategy.end_epoch(update);
  const ExchangeStats exchange = strategy.take_stats();
  t.times.total += seconds_since(start);
  t.times.read += reading;
  t.times.update += update.seconds();
  t.times.exchange += exchange;
  t.times.network += working - update.seconds() - exchange.encode - exchange.wait - exchange.decode;
}

}  // namespace tutti
