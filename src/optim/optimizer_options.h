// SPDX-License-Identifier: Apache-2.0
// The settings of the SGD block that belong to the update rule, and the optimizer made from them. SgdOptions
// (src/train/sgd_options.h) reads these keys together with its own; docs/optimizers.md explains them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "tutti/config.h"
#include "tutti/optimizer.h"

namespace tutti {

enum class UpdateRule { sgd, adagrad, fs_adagrad, rms_prop, adam, rms_prop_textbook, one_bit_adam, adam_w, lamb, lars };

struct OptimizerOptions {
  UpdateRule rule = UpdateRule::sgd;
  bool nesterov = false;
  bool norm_with_average = true;
  double noise = 0;

  double l1 = 0, l2 = 0;
  double clipping_per_sample = std::numeric_limits<double>::infinity();
  bool clip_by_truncation = true;
  double global_norm_per_sample = std::numeric_limits<double>::infinity();

  double variance_time_constant = 2.0 * 3600 * 100;
  double target_average = 1;
  double rms_gamma = 0.99, rms_increase = 1.2, rms_decrease = 0.75, rms_max = 10, rms_min = 0.1;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.9;
  std::int64_t warmup_samples = 0;
  double weight_decay = 0, trust_coefficient = 0.001;

  // Not keys of this table; whoever reads the schedules sets them. `momentum` is false when the whole momentum schedule
  // is 0, which saves the memory of the smoothed gradient and its traffic.
  bool momentum = true;
  double min_learning_rate = 1e-9;  // per sample

  void describe(config::Fields&);
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions&);
// Values of state that the optimizer keeps for each weight.
int state_per_weight(const OptimizerOptions&);

}  // namespace tutti
