// SPDX-License-Identifier: Apache-2.0
// epoch_warnings.h -- what train() warns of after an epoch: a training that has diverged, because its criterion is much
// higher than that of the best constant prediction (from the labels of the first epoch), and an epoch on several ranks
// that took longer than a single rank would have needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/report.h"
#include "tutti/communicator.h"
#include "tutti/graph.h"
#include "tutti/network.h"
#include "tutti/reader.h"

namespace tutti {

class ConstantPredictor {
 public:
  // Supports CrossEntropyWithSoftmax, CrossEntropy, Logistic and SquareError whose labels are an input of the network;
  // other criteria have no value.
  void watch(const graph::Graph&, const std::string& criterion, const std::vector<StreamInfo>&);
  bool counts() const { return kind_ != Kind::none && !finished_; }
  void add(const Batch&);      // the labels of this rank's share
  void finish(Communicator&);  // collective; ends counting

  struct Value {
    double best = 0;       // of the best constant
    double untrained = 0;  // of equal probabilities, or of 0: about the start of a training
    std::string text;      // what `best` is, in words
  };
  // Per sample. Empty if all labels are equal, so that a constant is perfect.
  std::optional<Value> value() const;

 private:
  enum class Kind { none, categories, probabilities, values };

  Kind kind_ = Kind::none;
  bool finished_ = false;
  std::size_t stream_ = 0, dim_ = 0;
  // The sums over the samples of each label, then of all squares, and the number of samples.
  std::vector<double> sums_;
};

// Returns a warning if the average criterion of an epoch is more than twice the constant predictor's, else "". `first`:
// the epoch started with an untrained network.
std::string divergence_warning(const ConstantPredictor&, const std::string& criterion, double average,
                               std::int64_t epoch, bool first);

// Prints a warning for each node whose result on several ranks is not that of one rank.
void warn_of_indivisible_nodes(const Network&, int ranks);

struct SharedEpoch {
  std::int64_t epoch = 1;  // counts from 1
  int ranks = 1;
  std::int64_t minibatch = 0;  // over all ranks
  std::int64_t minibatches = 0;  // updates
  std::int64_t accumulated = 1;  // minibatches per update
};

// Returns a warning with its reason and the setting to change; empty if the ranks gain time, or lose it to something
// other than the exchange. A single rank is assumed to compute and read as long as all ranks together.
std::string slow_exchange_warning(const EpochTimes&, const SharedEpoch&);

}  // namespace tutti
