// SPDX-License-Identifier: Apache-2.0
#include "optim/noise.h"

#include <cmath>

#include "optim/kernels.h"
#include "optim/noise_formula.h"

namespace tutti::optim {

double gaussian(std::uint64_t step, std::uint64_t index) {
  const auto p = noise::polar(step, index);
  return p.a * std::sqrt(p.square);
}

void add_noise(float* w, std::size_t n, double deviation, std::uint64_t step, std::uint64_t first) {
  for (std::size_t i = 0; i < n; ++i) w[i] += static_cast<float>(deviation * gaussian(step, first + i));
}

}  // namespace tutti::optim
