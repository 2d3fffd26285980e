// SPDX-License-Identifier: Apache-2.0
// Dropout, in both directions.
#include <type_traits>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/divisor.h"
#include "backend/cuda/flat.h"
#include "backend/cuda/windows.h"
#include "base/cuda/launch.h"

namespace tutti::cuda {
namespace {

__device__ std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Which numbers the elements have that a thread takes at a time: `at` is that of the first, `step` goes to the next.
struct Numbers {
  std::size_t at, step;
};
struct AsTheyLie {
  __device__ Numbers operator()(std::size_t i) const { return {i, 1}; }
};
// Channels lie last, and a thread stays in a pixel.
struct AsInPlanes {
  Axis channels, pixels;
  __device__ Numbers operator()(std::size_t i) const {
    auto rest = static_cast<unsigned>(i);
    const unsigned channel = channels.split(rest), pixel = pixels.split(rest);
    return {(std::size_t{rest} * channels.size + channel) * pixels.size + pixel, pixels.size};
  }
};

template <class T, unsigned V, class NumbersOf>
__global__ void dropout_each(DropoutMask mask, NumbersOf numbers_of, const T* x, T* y, std::size_t count, bool add) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ull;
  const std::uint64_t key = mixed(mask.numbers->seed + golden), first = mask.numbers->first + mask.skipped;
  const float keep = 1.0f / (1.0f - mask.rate);
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    const Numbers numbers = numbers_of(i);
    Lanes<V> v = load<V>(x + i);
    for (unsigned l = 0; l < V; ++l) {
      const std::uint64_t r = mixed(key + (first + numbers.at + l * numbers.step) * golden);
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
  const bool lies_last = mask.block > 0 && mask.pixels > 1;
  const auto drop = [&](const auto& numbers_of) {
    using NumbersOf = std::decay_t<decltype(numbers_of)>;
    flat(
        element, lies_last ? mask.channels : count,
        [&](auto number, auto lanes) {
          using T = decltype(number);
          launch(dropout_each<T, lanes, NumbersOf>, blocks_for(count / lanes), threads_per_block, stream(), mask,
                 numbers_of, as<T>(x), as<T>(y), count, accumulate);
        },
        x, y);
  };
  if (!lies_last) return drop(AsTheyLie{});
  in_32_bits(count);
  drop(AsInPlanes{Axis(mask.channels), Axis(mask.pixels)});
}

}  // namespace tutti::cuda
