// SPDX-License-Identifier: Apache-2.0
// sgd_options.h -- the SGD block: every key with its default and rules, and the conversions from the units of the user
// to those of the update (per sample).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer_options.h"
#include "parallel/hybrid/options.h"
#include "parallel/options.h"
#include "train/fault_options.h"
#include "train/learning_rate_schedule.h"
#include "train/metrics/options.h"
#include "tutti/config.h"

namespace tutti {

// AutoAdjust=[...]; applied by src/train/adjust.h.
struct AutoAdjustOptions {
  enum class Method { none, after_epoch, before_epoch };
  Method method = Method::none;
  double reduce_if_improve_less = 0;
  double increase_if_improve_more = std::numeric_limits<double>::infinity();
  double decrease_factor = 0.618, increase_factor = 1.382;
  bool continue_reduce = false, load_best_model = true;
  std::int64_t interval = 1;
  bool use_cv_set = true, use_eval_criterion = false;
  std::int64_t num_prev_learn_rates = 5, num_best_search_epoch = 1;
  config::Schedule<std::int64_t> samples_for_search, minibatches_for_search;
  bool adjust_minibatch = false;
  std::int64_t minibatch_tuning_frequency = 1, minibatch_tuning_max = 1048576, minibatch_error_margin = 1;

  void describe(config::Fields&);

 private:
  void check(config::Fields&) const;
};

struct SgdOptions {
  std::int64_t max_epochs = 0;
  std::int64_t epoch_size = 0;  // 0 = the whole data set
  config::Schedule<std::int64_t> minibatch_size = 256;
  std::int64_t gradient_accumulation = 1;                             // minibatches per update
  config::Schedule<double> learning_rates_per_mb, learning_rates_per_sample;  // one of the two is empty
  std::optional<LearningRateSchedule> learning_rate_schedule;
  config::Schedule<double> momentum_per_mb = 0.9;                             // used if the two others are empty
  config::Schedule<double> momentums_per_sample, momentum_as_time_constant;
  OptimizerOptions optimizer;
  double min_learning_rate_per_sample = 1e-9;
  config::Schedule<double> dropout_rate = 0.0;
  double label_smoothing = 0;
  double weight_average = 0;  // 0 = none
  config::Schedule<double> normalization_time_constant = 0.0, normalization_blend_time_constant = 0.0;
  bool no_regularization_in_normalization = false;
  std::int64_t num_mbs_to_show_result = 10, first_mbs_to_show_result = 0;
  std::string model_path;
  std::int64_t trace_level = 0;
  bool keep_checkpoint_files = false;
  bool keep_best = false;
  std::int64_t patience = 0;                  // epochs; 0 = no end
  std::int64_t checkpoint_every_samples = 0;  // 0 = only after epochs
  std::string train_criterion_node, eval_criterion_node;
  std::int64_t max_samples_in_ram = 0, num_subminibatches = 1;  // 0 = no limit
  bool use_all_data_for_precomputed_node = true;
  std::optional<AutoAdjustOptions> auto_adjust;
  ParallelTrainOptions parallel;
  std::optional<ModelParallelOptions> model_parallel;
  bool shard_optimizer = false;
  FaultOptions faults;
  MetricsOptions metrics;
  std::string timeline;  // a file; "" = none
  std::int64_t timeline_steps = 100;
  bool gradient_check = false, truncated = false;
  std::vector<std::string> trace_real, trace_category, trace_sparse;  // nodes printed in every minibatch
  std::int64_t significant_digits = 6;

  void describe(config::Fields&);

  bool traces() const { return !trace_real.empty() || !trace_category.empty() || !trace_sparse.empty(); }

  // Samples per update and exchange, over all ranks.
  std::int64_t update_size(std::int64_t minibatch) const { return minibatch * gradient_accumulation; }
  std::size_t listed_learning_rates() const {
    return std::max(learning_rates_per_mb.size(), learning_rates_per_sample.size());
  }
  // Epochs count from 0. List entries and the resulting rates are single-precision values.
  double learning_rate_per_sample(std::size_t epoch) const;
  double momentum_per_sample(std::size_t epoch) const;
  // The value for an epoch of a schedule that starts with its first entry other than 0, as in CNTK.
  static std::optional<double> once_set(const config::Schedule<double>& values, std::size_t epoch);
  // In samples, for the line "Starting Epoch".
  double momentum_time_constant(std::size_t epoch) const;

 private:
  void describe_schedule(config::Fields&);
  void describe_running(config::Fields&);
  void describe_legacy(config::Fields&);
  void check_rates(config::Fields&) const;
  void check_momentum(config::Fields&) const;
  void check_truncated(config::Fields&) const;
  void check_sizes(config::Fields&) const;
};

// Reads the block and derives values that depend on several keys (optimizer.momentum, optimizer.min_learning_rate).
SgdOptions read_sgd_options(const config::Record& sgd, Problems&, config::Notices&);

}  // namespace tutti
