// SPDX-License-Identifier: Apache-2.0
// Gaussian numbers that are a pure function of (step, index): every rank adds the same noise to its replica, whatever
// its processor, its mathematical library and the order in which chunks arrive.
#pragma once

#include <cstdint>

namespace tutti::optim {

double gaussian(std::uint64_t step, std::uint64_t index);

}  // namespace tutti::optim
