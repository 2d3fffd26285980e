// SPDX-License-Identifier: Apache-2.0
// phase_metrics.h -- progress and step metrics of a phase. Metrics may arrive some steps later, so that the host does
// not wait for a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/phase_times.h"
#include "train/training.h"

namespace tutti {

class PhaseMetrics {
 public:
  // All arguments must outlive it.
  PhaseMetrics(Training& t, const Phase& phase, PhaseTimes& times)
      : t_(t),
        phase_(phase),
        times_(times),
        updates_alone_(phase.method->method.traits.own_updates && !t.sgd.parallel.adds_updates()) {}
  ~PhaseMetrics();
  PhaseMetrics(const PhaseMetrics&) = delete;
  PhaseMetrics& operator=(const PhaseMetrics&) = delete;

  void defer_if_possible();  // once, before the first step. Collective
  void start_reading();      // Batch::minibatch counts from the current minibatch of the epoch
  // After each step: passes its metrics, or those of an earlier step, to the report.
  void add(const Batch&, const StepMetrics&);
  void finish_deferred();  // handles the metrics that have not arrived yet
  void drain();            // afterwards, once the method is drained: brings the epoch up to date. Collective
  // Ranks with work units are at different positions; the range ends at the foremost one. Collective.
  void agree_on_progress();

  // Of the network, with the step metrics of this rank. onNaN decides whether a NaN criterion ends the run.
  StepMetrics forward_backward(const Batch&, GradientSink&, const StepInfo&);
  // With onNaN = skip, after a step whose update is skipped: the running statistics are those from before it.
  void restore_statistics();
  // Whether all ranks know by now that the run goes back (onNaN = rewind).
  bool rewinds_now() const;
  // After drain(): throws Rewind on all ranks if one of them has seen NaN. Collective.
  void rewind_if_needed() const;
  std::int64_t number_of(std::int64_t minibatch) const { return minibatches_before_ + minibatch + 1; }  // in the epoch

 private:
  // With onNaN = skip, before a step.
  void keep_statistics();
  // The criterion of this rank is NaN. Returns its metrics if the run is to continue (nan_report.cpp).
  StepMetrics bear_nan(const Batch&, const std::string& what, GradientSink&);
  // End the run (nan_report.cpp).
  [[noreturn]] void stop_at_nan(std::int64_t minibatch, const std::string& what) const;
  [[noreturn]] void stop_at_nan(const DeferredNumericError&);
  OnNan on_nan() const;
  void check_sum(const StepMetrics&, std::int64_t minibatch);

  Training& t_;
  const Phase& phase_;
  PhaseTimes& times_;
  const bool updates_alone_;  // the gradients of a step are an update of this rank, or of its group
  bool deferred_ = false;
  std::int64_t minibatches_before_ = 0;  // in this epoch, before the reader started
  std::int64_t steps_ = 0;               // since then
  bool nan_seen_ = false;
  std::vector<std::vector<float>> statistics_;
};

}  // namespace tutti
