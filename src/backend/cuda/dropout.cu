// SPDX-License-Identifier: Apache-2.0
// Dropout, in both directions.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/flat.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

__device__ std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

template <class T, unsigned V>
__global__ void dropout_each(DropoutMask mask, const T* x, T* y, std::size_t count, bool add) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ull;
  const std::uint64_t key = mixed(mask.numbers->seed + golden), first = mask.numbers->first + mask.skipped;
  const float keep = 1.0f / (1.0f - mask.rate);
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    Lanes<V> v = load<V>(x + i);
    for (unsigned l = 0; l < V; ++l) {
      const std::uint64_t r = mixed(key + (first + i + l) * golden);
      const float u = static_cast<float>(static_cast<std::int32_t>(r >> 40)) * 5.9604644775390625e-8f;  // 2^-24
      v.at[l] = u <= mask.rate ? 0.0f : v.at[l] * keep;
    }
    put(y + i, v, add);
  }
}

}  // namespace

void CudaBackend::dropout(const DropoutMask& mask, const float* x, float* y, std::size_t count, bool accumulate,
                          Element element) {
  if (count == 0) return;
  flat(
      element, count,
      [&](auto number, auto lanes) {
        using T = decltype(number);
        launch(dropout_each<T, lanes>, blocks_for(count / lanes), threads_per_block, stream(), mask, as<T>(x), as<T>(y),
               count, accumulate);
      },
      x, y);
}

}  // namespace tutti::cuda
