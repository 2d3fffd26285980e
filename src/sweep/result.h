// SPDX-License-Identifier: Apache-2.0
// result.h -- what a run has reached, from its log, and the mark that it has ended.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweep/plan.h"

namespace tutti::sweep {

using Values = std::vector<std::pair<std::string, double>>;  // criterion first

struct EpochResult {
  int epoch = 0, epochs = 0;
  Values training, validation;
};
struct LogResult {
  std::string training;  // the last of the commands that train
  // Of that command, without those that AutoAdjust has undone. A resumed run's log may hold an epoch twice: the later
  // one.
  std::vector<EpochResult> epochs;
  Values test;  // of the last "Final Results"
  // Commands whose training has ended before its last epoch or by patience, with their maxEpochs then.
  std::map<std::string, int> ended_early;
};
// Empty if there is no log yet.
LogResult read_log(const std::string& path);
// Epochs whose lines are complete.
int finished_epochs(const LogResult&);

// The objective after that epoch (0 = at the end), with the name that it has. Nothing if the log does not hold it.
// "test", "validation" or "training" alone is the first evaluation there; "" is the first of these that the log holds.
// Only a run to the end has a test.
struct Score {
  std::string name;
  double value = 0;
};
std::optional<Score> score(const LogResult&, const std::string& objective, int epoch);
// Throws ConfigError if the sweep names an objective that the log of a run that succeeded does not hold.
void check_objective(const Plan&, const Run&, const LogResult&);

// The mark of a run that has ended with exit code 0, or has failed. Written in one go, so it is there or not.
struct Ended {
  int code = 0;
  double seconds = 0;  // of all rounds
};
std::optional<Ended> read_ended(const Run&);
void write_ended(const Run&, const Ended&);
// What its rounds and its earlier attempts took together, as far as they are known.
double read_seconds(const Run&);
double add_seconds(const Run&, double more);  // returns the sum

}  // namespace tutti::sweep
