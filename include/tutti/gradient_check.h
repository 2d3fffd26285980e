// SPDX-License-Identifier: Apache-2.0
// gradient_check.h -- analytic against central-difference gradients, for `gradientcheck = true` and for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/network.h"

namespace tutti {

struct GradientCheckOptions {
  double step = 1e-2;        // relative to the size of a value; single precision needs large steps
  double tolerance = 1e-2;   // relative; the noise of the criterion is added to it
  std::size_t entries = 50;  // random entries checked per parameter, 0 = all
  std::uint64_t seed = 1;    // seed of the choice
};

struct GradientMismatch {
  std::string parameter;
  std::size_t index = 0;
  double analytic = 0, numeric = 0;
};

// At a kink of the criterion, any gradient between those of the two sides is right. Afterwards the gradients are those
// of this minibatch; everything else is restored.
std::vector<GradientMismatch> check_gradients(Network&, const Batch&, const GradientCheckOptions& = {});

}  // namespace tutti
