// SPDX-License-Identifier: Apache-2.0
// training.h -- a training run as a struct of parts, and the functions that work on it. New behaviour belongs in a new
// part, not in methods of Training.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/weight_average.h"
#include "parallel/hybrid/cost.h"
#include "parallel/running_method.h"
#include "parallel/warm_start.h"
#include "train/adjust.h"
#include "train/background_writer.h"
#include "train/checkpoint.h"
#include "train/epoch_warnings.h"
#include "train/grad_scaler.h"
#include "train/kernel_record.h"
#include "train/method_choice.h"
#include "train/metrics/metrics.h"
#include "train/report.h"
#include "train/sgd_options.h"
#include "train/timeline_writer.h"
#include "tutti/communicator.h"
#include "tutti/network.h"
#include "tutti/optimizer.h"
#include "tutti/parallel_method.h"
#include "tutti/reader.h"

namespace tutti {

struct Resumed {
  ResumePoint point;
  StepMetrics interval_metrics;  // not printed yet
};

struct Training {
  Communicator* world = nullptr;
  std::string command;                  // the block's name, for messages
  std::string settings, given_options;  // as printed at start, and the SGD block as it was given
  std::string model_path;
  bool make_mode = true;
  std::shared_ptr<std::function<void()>> begins;  // that of Action; may be null or empty
  int trace_level = 0;
  bool progress_tracing = false;
  SgdOptions sgd;
  std::unique_ptr<Communicator> layer_ranks;  // that compute divided layers together; null without any
  std::unique_ptr<Communicator> same_parts;   // the ranks of all groups that have the same parts; null without groups
  LinkSpeed link;                             // between these ranks, if a placement depends on it
  ComputeSpeed compute;                       // of these ranks, likewise
  std::string placement;                      // the table of the layers' placements
  std::unique_ptr<Network> network;
  bool network_of_files = false;  // not of the description
  // Of this rank, while those of the network are the mean of the ranks (SavedStatistics).
  std::map<std::string, std::vector<float>> own_statistics;
  std::unique_ptr<Optimizer> optimizer;
  std::shared_ptr<RunOptimizer> run_optimizer = std::make_shared<RunOptimizer>();  // `optimizer`, for the methods
  std::unique_ptr<WeightAverage> average;                                          // null without weightAverage
  std::unique_ptr<Communicator> checksummed;  // `world` for the methods, with messageChecksums
  // The method of the warm start and that of ParallelTrain. They outlive the readers, which may take work units.
  std::unique_ptr<RunningMethod> warm_up, parallel;
  WarmStart warm_start;
  std::unique_ptr<Reader> reader, cv_reader;  // cv_reader may be null
  FaultHook fault_hook;
  std::string method_name;                      // the state of one method must not be loaded by another
  std::unique_ptr<Metrics> metrics;             // of rank 0, with SGD.metrics
  std::unique_ptr<Communicator> metrics_ranks;  // for records of all ranks in a phase; null if ranks do not keep step
  std::unique_ptr<TimelineWriter> timeline;     // with SGD.timeline
  std::unique_ptr<Report> report;
  Progress progress;
  std::int64_t step_end = 0;       // samples of the epoch after the step that runs; 0 between steps
  std::optional<Resumed> resumed;  // where this run was resumed
  AdjustState adjust;
  BestModel best;
  MethodChoice choice;  // of parallelizationMethod = auto
  KernelRecord kernels;
  ConstantPredictor constant_predictor;
  bool exchange_judged = false;  // the warning about a slow exchange was printed
  GradScaler grad_scaler;
  double rate_factor = 1;  // of learning rates, after rewinds
  std::int64_t rewinds = 0;
  std::pair<std::string, std::int64_t> rewound_to;  // by the last one: the file, and the samples of its epoch
  std::int64_t samples_per_epoch = 0;
  bool traces = false;  // there are traced nodes
  int threads = 1;
  EpochTimes times;
  BackgroundWriter checkpoint_writer;
};

// Trains to the first minibatch after `samples` samples of the epoch, with result lines under that prefix; does not
// restore weights, progress or other state. Collective.
StepMetrics run_trial(Training&, const EpochSettings&, const char* prefix, std::int64_t samples);

// src/train/one_step.cpp: trains some steps from the initial weights, after warm-up steps; writes and
// restores nothing. Not more than an epoch. Collective.
struct TrialRun {
  std::int64_t steps = 0, samples = 0;  // those that were counted; samples of all ranks
  std::int64_t minibatch = 0, epoch_samples = 0;
  double criterion = 0;     // per sample
  std::size_t weights = 0;  // trained values of this rank
  EpochTimes times;
};
TrialRun try_steps(Training&, std::int64_t warm_up, std::int64_t steps);

// src/train/timed_steps.cpp: times steps of so many samples (0 = a minibatch) for about so many seconds. `t` is that of
// a rank alone without an exchange.
struct TimedSteps {
  std::int64_t samples = 0, minibatch = 0, epoch_samples = 0;
  double seconds = 0, update = 0;  // of a step: all but updates, and these
  std::vector<double> ready;       // by chunk: seconds until it is announced, without updates
  std::vector<Slice> slices;       // of the parameters
  std::vector<GradientChunk> chunks;
};
TimedSteps time_steps(Training& t, std::int64_t share, double seconds);

// Resumes or starts, trains to the last epoch, writes checkpoints and the final model. Collective over `world`.
void train(Training&);

// A part of an epoch with one method: from progress.samples_in_epoch to the end of the epoch, or to sample `until`.
struct Phase {
  RunningMethod* method = nullptr;
  EpochPlan plan;
  EpochSettings settings;
  std::int64_t until = 0;
};
// Thrown by all ranks together when the criterion is NaN and onNaN = rewind.
struct Rewind {};
// src/train/step_loop.cpp. Adds to Training::times.
void run_phase(Training&, const Phase&);

// src/train/step_rates.cpp. The learning rate at a sample of epoch progress.epoch: the one listed for the epoch times
// the factor of LearningRateSchedule; and the rates of a minibatch.
double scheduled_rate(const Training&, double listed_rate, double sample_of_epoch);
StepRates step_rates(const Training&, const EpochSettings&, const Batch&);

// src/train/interruptions.cpp. Of every epoch and trial, before its first minibatch, on all ranks.
void begin_pass();
// Whether this minibatch of the epoch, from 1, is computed: not if a signal has stopped the run before it.
bool may_begin(const Training&, std::int64_t minibatch);
// All ranks are at one minibatch, and nothing is in flight: saves, and throws StopRun. Collective.
[[noreturn]] void stop_run(Training&, bool saves);
void disturb(Training&);  // faultHook, before a step

// src/train/nan_report.cpp. If the run is to continue: announces NaN gradients to all ranks and returns NaN metrics.
StepMetrics announce_nan(Training&, const Batch&, GradientSink& chunks);
// gradientCheck: compares this rank's gradients with finite differences, and ends the run if they differ.
void check_gradients_or_stop(Training&, const Batch&);

// src/train/evaluate.cpp: criterion and evaluations over the data of `plan`, summed over the ranks.
// Prints CNTK's interval lines every `interval` minibatches if interval > 0.
struct EvaluationRun {
  std::vector<StepMetrics::Evaluation> sums;
  std::int64_t samples = 0, minibatches = 0;
};
struct EvaluationLines {
  std::int64_t interval = 0, first = 0;
};
// What is summed: the criterion and the evaluations, or only the evaluations (as listed by evalNodeNames).
enum class EvaluationOf { criterion_first, listed_nodes };
EvaluationRun evaluate(Network&, Reader&, Communicator&, const EpochPlan&, const EvaluationLines& = {},
                       EvaluationOf = EvaluationOf::criterion_first, bool sum_over_ranks = true);

// The results of the epoch on the validation data, if there are any, with the weights that are saved. Collective.
std::vector<StepMetrics::Evaluation> validate(Training&, std::int64_t minibatch);
// Computes corpus statistics (Mean, InvStdDev), if the network has any. Rank 0 reads all training
// data, minibatch by minibatch as CNTK does, so the numbers are those of a single process for any number of ranks.
void precompute(Training&);

// src/train/epoch_warnings.cpp: before the first epoch, and after each.
void advise(const Training&);
void warn_of_damaged_data(const Training&);  // the samples that readers skipped, summed over the ranks that met them
void warn_if_diverged(Training&);
void judge_exchange(Training&, std::int64_t minibatch);

// src/train/trace.cpp: traceNodeNames... of the SGD block and Trace nodes. Call plan_evaluation(traced_nodes) first.
std::vector<std::string> traced_nodes(const SgdOptions&, const graph::Graph&);
void trace_nodes(Training&, const Batch&);

}  // namespace tutti
