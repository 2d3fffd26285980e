// SPDX-License-Identifier: Apache-2.0
// report.h -- the log lines of a training or test run, and the progress line with its ETA.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tutti/communicator.h"
#include "tutti/exchange_stats.h"
#include "tutti/network.h"
#include "tutti/parameters.h"

namespace tutti {

// Whether the result is an error rate, which is printed as a percentage: a ClassificationError whose name ends in 's',
// as in CNTK, or a node computed from one and called '...errs' or '...errors'.
bool is_error_rate(const NodeResult&);
// Whether a larger value is a better one: Precision, Recall, F1Score.
bool larger_is_better(const NodeResult&);
// "name = V * count" with CNTK's number format: %.8f, %.8e where %.8g would need an exponent, and a percentage for
// error rates.
std::string format_result(const NodeResult&, double sum, double count);
// "a = 1.00000000 * 10; errs = 3.000% * 10" in the given order.
std::string format_results(const std::vector<NodeResult>& names, const std::vector<StepMetrics::Evaluation>& values);

std::vector<StepMetrics::Evaluation> criterion_first(const StepMetrics&);

// The name of an epoch in log lines.
struct EpochHeading {
  std::int64_t epoch = 1, epochs = 1;  // counts from 1
  std::int64_t minibatches = 0;        // estimated number per epoch; 0 = unknown, then no percentage
  std::int64_t samples = 0;            // estimated samples of the epoch, for the ETA; 0 = unknown
  std::string prefix = {};             // of interval lines: names the trial
  std::int64_t position = 0;           // samples of the run before this epoch's first step here
  std::int64_t end = 0;                // likewise, estimated, at the end of the epoch; 0 = unknown
};

// How this rank spent the time of an epoch.
struct EpochTimes {
  double total = 0, read = 0, network = 0, update = 0;
  std::vector<std::int64_t> units;  // work units by rank, with a work queue
  ExchangeStats exchange;
};

// The figures of an epoch, other than its results.
struct EpochFigures {
  std::int64_t total_samples_seen = 0;
  double learning_rate = 0, momentum = 0;  // per sample
  std::int64_t minibatch = 0;
  double seconds = 0;
};
// Named values with one number per rank.
using ValuesByRank = std::vector<std::pair<std::string, std::vector<double>>>;

class Metrics;
struct MetricsRecord;

class Report {
 public:
  Report(NodeResult criterion, std::vector<NodeResult> evaluations, std::int64_t interval, std::int64_t first,
         int trace_level, bool progress_tracing);

  // Also writes every line there. Null: nowhere.
  void write_to(Metrics* metrics) { metrics_ = metrics; }
  // Interval records get the times of all these ranks, which must then all pass interval lines together. Null: of rank
  // 0 only. The same on all ranks.
  void gather_over(Communicator* ranks) { ranks_ = ranks; }
  void begin_epoch(const EpochHeading&);
  // After begin_epoch, if the epoch is resumed in its middle: the sums so far.
  void continue_epoch(std::int64_t minibatches_done, const StepMetrics& epoch, const StepMetrics& interval);
  // One step of `samples` over all ranks. Prints the interval line and the progress line when they are due. With a work
  // queue, a step of this rank may advance the data by several `minibatches`, or by none. `times` of the epoch need to
  // be up to date only if a line is due.
  void step(std::int64_t samples, std::int64_t minibatches, const EpochTimes& times);
  bool progress_due() const;
  // Whether the line would be due after that many more.
  bool line_due_within(std::int64_t minibatches) const {
    return line_due_between(minibatch_, minibatch_ + minibatches);
  }
  // The other ranks have advanced the epoch by this much.
  void pass(std::int64_t samples, std::int64_t minibatches);
  // Sums over steps: of all ranks, or of this rank if each trains on its own.
  void add(const StepMetrics&);
  void add_to_epoch(const StepMetrics&);                          // from other ranks: not part of the interval lines
  const StepMetrics& epoch_metrics() const { return epoch_; }     // the sums since the epoch began
  const StepMetrics& interval_metrics() const { return since_; }  // and since the last interval line
  // "Finished Epoch[ 1 of 4]: [Training] ..."
  void end_epoch(const EpochFigures&);
  // " Finished Mini-Epoch[1]: ..."
  void end_trial(double learning_rate_per_sample, std::int64_t minibatch);
  void validation(const std::vector<StepMetrics::Evaluation>& criterion_then_evaluations);
  void times(const EpochTimes&, int ranks) const;
  void record_epoch(const EpochFigures&, const ValuesByRank&) const;  // for write_to()
  void undo_epochs_after(std::int64_t epoch);                         // the run goes back to the model of that epoch
  // The result of the last epoch that ended here and was not undone, in the words of its lines; "" without any.
  std::string result() const;
  std::int64_t minibatches() const { return minibatch_; }

 private:
  bool line_due(std::int64_t minibatch) const;
  bool line_due_between(std::int64_t before, std::int64_t now) const;
  StepMetrics no_metrics() const;
  void interval_line(const EpochTimes&);
  void progress_line(const EpochTimes&);
  std::string results(const StepMetrics&) const;
  std::string heading() const;
  // report_records.cpp
  std::int64_t position() const;
  MetricsRecord record(const char* event, const std::vector<StepMetrics::Evaluation>&) const;
  double interval_speed(double seconds) const;
  void record_interval(double seconds, const EpochTimes&);  // collective with gather_over()
  void record_validation(const std::vector<StepMetrics::Evaluation>&) const;

  std::vector<NodeResult> names_;  // the criterion, then the evaluations
  std::int64_t interval_, first_;
  int trace_level_;
  bool progress_tracing_;
  EpochHeading at_;
  std::int64_t minibatch_ = 0;       // done in this epoch
  std::int64_t interval_begin_ = 0;  // the minibatch after which the current interval began
  // Samples over all ranks: since begin_epoch (for the rate of the progress line), and of the epoch.
  std::int64_t samples_here_ = 0, samples_done_ = 0;
  std::int64_t samples_of_interval_ = 0;  // over all ranks, whereas since_ may be of this rank alone
  StepMetrics epoch_, since_;
  EpochTimes interval_times_;  // when the current interval began
  Metrics* metrics_ = nullptr;
  Communicator* ranks_ = nullptr;
  struct EndedEpoch {
    std::int64_t epoch = 0;
    std::string training, validation;
  };
  std::vector<EndedEpoch> ended_;
  Clock::time_point interval_start_, epoch_start_, progress_shown_;
};

}  // namespace tutti
