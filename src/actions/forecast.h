// SPDX-License-Identifier: Apache-2.0
// forecast.h -- from the measured steps of a method to its speed in a run, for `trainer plan` and for
// parallelizationMethod = auto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::actions {

// A trial of some steps, of the slowest rank.
struct Measured {
  std::int64_t steps = 0, samples = 0;
  double exchanges = 0;
  double seconds = 0, wait = 0;  // wait: for messages of other ranks
  double computing = 0;          // seconds of the slowest rank without its waits
  double bytes = 0;              // that a rank sent
  double memory = 0;             // bytes
};

struct Forecast {
  std::string method, bits;
  std::string refused;  // why there is no figure
  bool exact = false;   // the result is that of DataParallelSGD in 32 bits
  double samples_per_second = 0;
  double bytes_per_step = 0;
  double hidden = -1;  // share of the exchange that computing covers; below 0 = not known
  double memory = 0;
  // What the figures of a method that exchanges after blocks come from; a period of 0 = of another one.
  Measured never = {}, always = {};
  double period = 0;
};

struct LinkFigures {
  double latency = 0, bandwidth = 0;  // seconds; bytes per second
};

// Of a method that exchanges in every step.
void forecast_steps(Forecast&, const Measured&, const LinkFigures&);
// Of one that exchanges every `period` steps: from a trial with an exchange only at the end, and one after every step.
void forecast_blocks(Forecast&, const Measured& never, const Measured& always, double period);
// Of one whose ranks meet only at the end of an epoch, or of a trial: from two trials of different length. `steps`: of
// an epoch.
void forecast_epochs(Forecast&, const Measured& some, const Measured& more, double steps, const LinkFigures&);
// The mean steps between two exchanges in an epoch of so many samples. A block of `samples` ends with a minibatch, and
// there is one more exchange at the end of the epoch. With `steps` in place of samples only if steps are left.
double mean_period(std::int64_t epoch, std::int64_t minibatch, std::int64_t samples, std::int64_t steps);
// The same method measured once more. The faster trial counts, of each kind: a disturbed one only takes longer.
void take_faster(Forecast&, const Forecast& again);
// Of the same method measured several times: the median of each kind of trial, nearest to the mean of a run.
Forecast median_of(std::vector<Forecast> rounds);

// "DataParallelSGD in 32 bits".
std::string full_name(const Forecast&);

struct Choice {
  int fastest = -1, exact = -1;  // indices; -1 = none
};
Choice choose(const std::vector<Forecast>&);
// "2 ranks do not pay: ..." if this speed is not above that of one rank, in samples per second; else "".
std::string no_gain_text(double speed, double single, int ranks);
// The table, and under it the choice with its reason. `single`: samples per second of one rank.
std::string report_text(const std::vector<Forecast>&, double single, int ranks);

}  // namespace tutti::actions
