// SPDX-License-Identifier: Apache-2.0
// report.h -- the lines a training or test run prints (semantics 15), and the progress line with its ETA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tutti/exchange_stats.h"
#include "tutti/network.h"
#include "tutti/parameters.h"

namespace tutti {

// Whether the result is a share of wrong samples, which is shown as a percentage: a ClassificationError whose name ends
// in 's', as in the original, or what a script has made of one and called '...errs' or '...errors'.
bool is_error_rate(const NodeResult&);
// "name = V * count" with the original's number rules: %.8f, %.8e where %.8g would need an exponent, and a percentage
// for error rates.
std::string format_result(const NodeResult&, double sum, double count);
// "a = 1.00000000 * 10; errs = 3.000% * 10" in the given order.
std::string format_results(const std::vector<NodeResult>& names, const std::vector<StepMetrics::Evaluation>& values);

// What an epoch is called in its lines.
struct EpochHeading {
  std::int64_t epoch = 1, epochs = 1;  // counts from 1
  std::int64_t minibatches = 0;        // estimated number per epoch; 0 = unknown, then no percentage
  std::int64_t samples = 0;            // estimated samples of the epoch, for the ETA; 0 = unknown
  std::string prefix = {};             // of interval lines: which trial this is
};

// Where the time of an epoch went, on this rank.
struct EpochTimes {
  double total = 0, read = 0, network = 0, update = 0;
  std::vector<std::int64_t> units;  // that each rank has worked on, where they are handed out
  ExchangeStats exchange;
};

class Report {
 public:
  Report(NodeResult criterion, std::vector<NodeResult> evaluations, std::int64_t interval, std::int64_t first,
         int trace_level, bool progress_tracing);

  void begin_epoch(const EpochHeading&);
  // After begin_epoch, when the epoch was taken up in its middle: what had been summed by then.
  void continue_epoch(std::int64_t minibatches_done, const StepMetrics& epoch, const StepMetrics& interval);
  // One step of `samples` over all ranks. Prints the interval line when it is due. Where work units are handed out, a
  // step of this rank may be several `minibatches` on in the data, or none.
  void step(std::int64_t samples, std::int64_t minibatches = 1);
  // Whether that line would be due after so many more.
  bool line_due_within(std::int64_t minibatches) const {
    return line_due_between(minibatch_, minibatch_ + minibatches);
  }
  // The other ranks have brought the epoch this much further on.
  void pass(std::int64_t samples, std::int64_t minibatches);
  // The sums of steps, of all ranks, or of this rank where each trains alone.
  void add(const StepMetrics&);
  void add_to_epoch(const StepMetrics&);                          // by other ranks: no part of the interval lines
  const StepMetrics& epoch_metrics() const { return epoch_; }     // the sums since the epoch began
  const StepMetrics& interval_metrics() const { return since_; }  // and since the last interval line
  // "Finished Epoch[ 1 of 4]: [Training] ..."
  void end_epoch(std::int64_t total_samples_seen, double learning_rate_per_sample, double seconds);
  // " Finished Mini-Epoch[1]: ..."
  void end_trial(double learning_rate_per_sample, std::int64_t minibatch);
  void validation(const std::vector<StepMetrics::Evaluation>& criterion_then_evaluations);
  void times(const EpochTimes&, int ranks) const;
  std::int64_t minibatches() const { return minibatch_; }

 private:
  bool line_due(std::int64_t minibatch) const;
  bool line_due_between(std::int64_t before, std::int64_t now) const;
  void interval_line();
  void progress_line();
  std::string results(const StepMetrics&) const;
  std::string heading() const;

  NodeResult criterion_;
  std::vector<NodeResult> evaluations_;
  std::int64_t interval_, first_;
  int trace_level_;
  bool progress_tracing_;
  EpochHeading at_;
  std::int64_t minibatch_ = 0;       // done in this epoch
  std::int64_t interval_begin_ = 0;  // the minibatch after which the running interval began
  // Samples over all ranks: since begin_epoch (for the rate of the progress line), and of the epoch.
  std::int64_t samples_here_ = 0, samples_done_ = 0;
  StepMetrics epoch_, since_;
  Clock::time_point interval_start_, epoch_start_, progress_shown_;
};

}  // namespace tutti
