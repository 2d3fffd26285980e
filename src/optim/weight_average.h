// SPDX-License-Identifier: Apache-2.0
// weight_average.h -- weightAverage = d in SGD: an exponential moving average of the weights. The average is saved and
// evaluated, while training goes on with the weights themselves. Sources: Polyak and Juditsky, "Acceleration of
// Stochastic Approximation by Averaging" (1992); the decay of the first updates is TensorFlow's.
#pragma once

#include <cstdint>

#include "optim/kernels.h"
#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

class WeightAverage {
 public:
  explicit WeightAverage(double decay) : decay_(decay) {}

  void bind(Parameters&);  // allocates the average, beside the weights
  void restart();          // at the present weights
  // After the n-th update of the weights, from 0: average += (1 - min(d, (1 + n) / (10 + n))) (weights - average).
  void update();
  // Swaps the average and Parameters::weights; the second call swaps them back.
  void swap();
  // The number of updates, and the values that are not in Parameters::weights.
  void archive(Archive&);
  static bool is_in(const Archive& a) { return a.has("average/updates"); }

 private:
  const double decay_;
  Parameters* p_ = nullptr;
  const optim::Kernels* k_ = nullptr;
  FloatBuffer other_;
  std::int64_t updates_ = 0;
};

}  // namespace tutti
