// SPDX-License-Identifier: Apache-2.0
// weight_kernels.h -- the loops of weight exchanges, for host and GPU memory. On a GPU they are enqueued in the stream
// of the calling thread.
#pragma once

#include <cstddef>
#include <tuple>

#include "parallel/local_sgd/weight_formulas.h"
#include "tutti/parameters.h"

namespace tutti {

struct WeightKernels {
  template <class Formula>
  using Loop = void (*)(const Formula&, std::size_t count);

  // For the elements [0, count).
  template <class Formula>
  void run(const Formula& formula, std::size_t count) const {
    std::get<Loop<Formula>>(loops)(formula, count);
  }

  std::tuple<Loop<weights::Copy>, Loop<weights::Swap>, Loop<weights::Offer>, Loop<weights::OfferCarried>,
             Loop<weights::Carry>, Loop<weights::Descend>, Loop<weights::Smooth>, Loop<weights::Nesterov>,
             Loop<weights::Adam>, Loop<weights::Pull>, Loop<weights::Clear>, Loop<weights::Difference>,
             Loop<weights::Approach>, Loop<weights::Add>, Loop<weights::Subtract>, Loop<weights::Learned>,
             Loop<weights::Mix>>
      loops;
};

// The loops for weights in that memory.
const WeightKernels& weight_kernels_for(const FloatMemory&);

}  // namespace tutti
