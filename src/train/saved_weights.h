// SPDX-License-Identifier: Apache-2.0
// saved_weights.h -- the weights that are saved and evaluated: the common weights of the method or, with weightAverage,
// their average.
#pragma once

#include <exception>

#include "train/training.h"

namespace tutti {

// While it lives, Parameters::weights are these. After an error they are not swapped back, as nothing goes on.
class SavedWeights {
 public:
  explicit SavedWeights(Training& t) : common_(*t.parallel->method.weights), average_(t.average.get()) {
    if (average_) average_->swap();
  }
  ~SavedWeights() noexcept(false) {
    if (average_ && std::uncaught_exceptions() == exceptions_) average_->swap();
  }
  SavedWeights(const SavedWeights&) = delete;
  SavedWeights& operator=(const SavedWeights&) = delete;

 private:
  const CommonWeights common_;
  WeightAverage* const average_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti
