// SPDX-License-Identifier: Apache-2.0
// models.h -- the table of methods that `trainer simulate` knows: a row per method, with its settings and the function
// that gives the time of an epoch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulator/parts.h"

namespace tutti::simulator {

// Samples between two exchanges: of each rank, or of all if that is not 0. Both 0: after every minibatch.
struct Period {
  double each = 0, all = 0;
  double of_all(int ranks) const { return all > 0 ? all : each * ranks; }
};

// The data, and what the config says about methods.
struct Workload {
  double minibatch = 256, epoch = 60000;  // samples of all ranks
  Period averaging{40000}, momentum{120000};
  double elastic_period = 10;                 // minibatches
  double push_period = 256;                   // samples of a worker
  int push_servers = 0, elastic_servers = 0;  // ranks that only serve; 0 = the workers serve
  int group = 0;                              // ranks in a group; 0 = no groups
};

struct Estimate {
  double seconds = 0;  // of an epoch
  double bytes = 0;    // that a rank sends in a step
};

struct Model {
  std::string method, bits;
  std::string settings;  // of ParallelTrain
  std::function<Estimate(const Parts&, const Cluster&, const Workload&)> estimate;
  int least_ranks = 1;
};
std::vector<Model> models(const Workload&);

}  // namespace tutti::simulator
