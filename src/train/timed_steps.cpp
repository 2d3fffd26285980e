// SPDX-License-Identifier: Apache-2.0
// For `trainer simulate`: steps of this rank alone, with the time at which each gradient chunk is announced.
#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "train/checkpointing.h"
#include "train/gradient_reduction.h"
#include "train/training.h"

namespace tutti {
namespace {

constexpr std::int64_t kProbe = 5, kMost = 2000;

// A run takes as long as all of its steps, so what disturbs some of them counts.
double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Updates with this rank's gradients, and writes down when they came.
class TimedGradients final : public GradientExchange {
 public:
  void start(Parameters& p) override { ready_.resize(p.chunks.size()); }
  void begin_step(const StepInfo& step, ReducedGradientSink& sink) override {
    const auto now = Clock::now();
    if (steps_ > 0) between_.push_back(seconds(finished_, now));
    begun_ = now, updating_ = 0;
    columns_ = step.columns, sink_ = &sink;
  }
  void chunk_ready(std::size_t chunk) override {
    const auto now = Clock::now();
    ready_[chunk].push_back(seconds(begun_, now) - updating_);
    sink_->on_reduced(chunk, columns_);
    updating_ += seconds_since(now);
  }
  void finish_step() override {
    finished_ = Clock::now();
    computing_.push_back(seconds(begun_, finished_) - updating_);
    updates_.push_back(updating_);
    ++steps_;
  }

  // Reading and whatever else lies between two steps counts as their beginning.
  TimedSteps result() const {
    TimedSteps t;
    const double before = mean_of(between_);
    t.seconds = before + mean_of(computing_);
    t.update = mean_of(updates_);
    for (const auto& r : ready_) t.ready.push_back(before + mean_of(r));
    return t;
  }

 private:
  static double seconds(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
  }

  Clock::time_point begun_, finished_;
  double updating_ = 0;
  std::int64_t steps_ = 0, columns_ = 0;
  ReducedGradientSink* sink_ = nullptr;
  std::vector<std::vector<double>> ready_;  // by chunk and step
  std::vector<double> between_, computing_, updates_;
};

TimedSteps timed_trial(Training& t, const EpochSettings& settings, std::int64_t samples) {
  auto timed = std::make_unique<TimedGradients>();
  const TimedGradients& times = *timed;
  t.parallel->method.gradients = std::move(timed);
  start_method(t);
  t.progress.begin_epoch();
  run_trial(t, settings, "trial", samples - 1);
  return times.result();
}

}  // namespace

TimedSteps time_steps(Training& t, std::int64_t share, double seconds) {
  EpochSettings settings = current_settings(t);
  const std::int64_t update = t.sgd.update_size(settings.minibatch);
  if (share > 0) settings.minibatch = std::max<std::int64_t>(1, share / t.sgd.gradient_accumulation);
  share = t.sgd.update_size(settings.minibatch);
  t.network->make_current();
  t.network->plan_training(share);
  t.optimizer->bind(t.network->parameters());
  if (t.average) t.average->bind(t.network->parameters());
  t.samples_per_epoch = t.sgd.epoch_size > 0 ? t.sgd.epoch_size : t.reader->sweep_samples();
  // A step ends where the data or the epoch end. Only whole ones are timed.
  const std::int64_t largest = std::max<std::int64_t>(1, std::min(t.samples_per_epoch, t.reader->sweep_samples()));
  share = std::min(share, largest);
  const std::int64_t most = std::min(kMost, largest / share), least = std::min(kProbe, most);
  t.network->initialize_parameters();
  precompute(t);
  const TimedSteps probe = timed_trial(t, settings, least * share);
  const double step = std::max(1e-6, probe.seconds + probe.update);
  const std::int64_t steps = std::clamp(static_cast<std::int64_t>(seconds / step), least, most);
  TimedSteps timed = timed_trial(t, settings, steps * share);
  timed.samples = share;
  timed.minibatch = std::min(update, largest);
  timed.epoch_samples = t.samples_per_epoch;
  timed.slices = t.network->parameters().slices;
  timed.chunks = t.network->parameters().chunks;
  return timed;
}

}  // namespace tutti
