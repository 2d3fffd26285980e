// SPDX-License-Identifier: Apache-2.0
// learning_rate_schedule.h -- LearningRateSchedule=[...] in SGD: a factor on the listed learning rate that changes from
// minibatch to minibatch. It depends only on the position in the data, so it is the same on every rank, for any number
// of ranks, and after a restart.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/config.h"

namespace tutti {

struct LearningRateSchedule {
  enum class Shape { constant, cosine, step, polynomial };
  Shape shape = Shape::constant;
  // Positions are in epochs and need not be whole numbers.
  double warmup_epochs = 0, warmup_factor = 0;
  double epochs = 0;  // where the curve ends; 0 = maxEpochs
  double final_factor = 0, power = 1;
  config::Schedule<double> step_epochs;
  double step_factor = 0.1;

  void describe(config::Fields&);
  // Sets `epochs` to max_epochs if it is 0. Reports a warm-up that does not end before it.
  void end_at(std::int64_t max_epochs, config::Fields&);

  // The factor at a position, in epochs from the start of the training: 2.5 is the middle of the third epoch.
  double factor(double position) const;
  std::string text() const;  // for the settings printed at start

 private:
  void check(config::Fields&) const;
};

}  // namespace tutti
