// SPDX-License-Identifier: Apache-2.0
// constant_predictor.h -- the criterion of a prediction that ignores the input, computed from the labels that a run
// reads in its first epoch. train() compares each epoch with it: a criterion far above means that the training has
// diverged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/graph.h"
#include "tutti/reader.h"

namespace tutti {

class ConstantPredictor {
 public:
  // Defined for CrossEntropyWithSoftmax, CrossEntropy, Logistic and SquareError whose labels are an input of the
  // network; for other criteria nothing is counted and there is no value.
  void watch(const graph::Graph&, const std::string& criterion, const std::vector<StreamInfo>&);
  bool counts() const { return kind_ != Kind::none && !finished_; }
  void add(const Batch&);      // the labels of this rank's share
  void finish(Communicator&);  // collective; nothing is counted from then on

  struct Value {
    double best = 0;       // of the best constant
    double untrained = 0;  // of equal probabilities, or of 0: about where training begins
    std::string text;      // what `best` is
  };
  // Per sample. Empty where the labels do not differ, so that a constant is as good as anything.
  std::optional<Value> value() const;

 private:
  enum class Kind { none, categories, probabilities, values };

  Kind kind_ = Kind::none;
  bool finished_ = false;
  std::size_t stream_ = 0, dim_ = 0;
  // The sums over the samples of each label, then of all squares, and the number of samples.
  std::vector<double> sums_;
};

// Empty unless an epoch's average criterion is more than twice the constant predictor's. `first`: the epoch began with
// an untrained network.
std::string divergence_warning(const ConstantPredictor&, const std::string& criterion, double average,
                               std::int64_t epoch, bool first);

}  // namespace tutti
