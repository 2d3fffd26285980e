// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_sgd/weight_kernels.h"

#include "base/cuda_library.h"

namespace tutti {
namespace {

template <class Formula>
void each(const Formula& formula, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) formula(i);
}

template <class... Formula>
constexpr std::tuple<WeightKernels::Loop<Formula>...> loops_of(std::tuple<WeightKernels::Loop<Formula>...>) {
  return {each<Formula>...};
}

constexpr WeightKernels host_kernels{loops_of(decltype(WeightKernels::loops)())};

}  // namespace

const WeightKernels& weight_kernels_for(const FloatMemory& memory) {
  if (is_host(memory)) return host_kernels;
  return *cuda_function<const WeightKernels*()>("tutti_cuda_weight_kernels")();
}

}  // namespace tutti
