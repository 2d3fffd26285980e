// SPDX-License-Identifier: Apache-2.0
// The formulas of weight_formulas.h as kernels; compiled without fused multiply-add.
#include "base/cuda/launch.h"
#include "base/cuda/runtime.h"
#include "parallel/local_sgd/weight_kernels.h"

namespace tutti::cuda {
namespace {

template <class Formula>
__global__ void each_kernel(Formula formula, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += element_step()) formula(i);
}

template <class Formula>
void each(const Formula& formula, std::size_t count) {
  if (count == 0) return;
  launch_for(each_kernel<Formula>, count, current_queue(), formula, count);
}

template <class... Formula>
constexpr std::tuple<WeightKernels::Loop<Formula>...> loops_of(std::tuple<WeightKernels::Loop<Formula>...>) {
  return {each<Formula>...};
}

}  // namespace
}  // namespace tutti::cuda

// What weight_kernels.cpp looks up in the library.
extern "C" const tutti::WeightKernels* tutti_cuda_weight_kernels() {
  static const tutti::WeightKernels kernels{tutti::cuda::loops_of(decltype(tutti::WeightKernels::loops)())};
  return &kernels;
}
