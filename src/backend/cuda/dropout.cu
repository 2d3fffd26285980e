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

// Which sample and which of its elements a thread has at a time: `first` is the first one, `step` goes to the next.
struct Place {
  unsigned column;
  std::size_t first, step;
};
struct AsTheyLie {
  Axis elements;
  __device__ Place operator()(std::size_t i) const {
    auto column = static_cast<unsigned>(i);
    const unsigned first = elements.split(column);
    return {column, first, 1};
  }
};
// Channels lie last, and a thread stays in a pixel.
struct AsInPlanes {
  Axis channels, pixels;
  __device__ Place operator()(std::size_t i) const {
    auto column = static_cast<unsigned>(i);
    const unsigned channel = channels.split(column), pixel = pixels.split(column);
    return {column, std::size_t{channel} * pixels.size + pixel, pixels.size};
  }
};

template <class T, unsigned V, class PlaceOf>
__global__ void dropout_each(DropoutMask mask, PlaceOf place_of, const T* x, T* y, std::size_t count, bool add) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ull;
  const std::uint64_t key = mixed(*mask.seed + golden);
  const float keep = 1.0f / (1.0f - mask.rate);
  for (std::size_t i = first_element() * V; i < count; i += element_step() * V) {
    const Place at = place_of(i);
    const std::uint64_t first = static_cast<std::uint64_t>(mask.samples[at.column]) * mask.elements + at.first;
    Lanes<V> v = load<V>(x + i);
    for (unsigned l = 0; l < V; ++l) {
      const std::uint64_t r = mixed(key + (first + l * at.step) * golden);
      const float u = static_cast<float>(static_cast<std::int32_t>(r >> 40)) * 5.9604644775390625e-8f;  // 2^-24
      v.at[l] = u <= mask.rate ? 0.0f : v.at[l] * keep;
    }
    put(y + i, v, add);
  }
}

}  // namespace

void CudaTensors::dropout(const DropoutMask& mask, const float* x, float* y, std::size_t count, bool accumulate,
                          Element element) {
  if (count == 0) return;
  in_32_bits(count);
  const bool lies_last = mask.block > 0 && mask.pixels > 1;
  const auto drop = [&](const auto& place_of) {
    using PlaceOf = std::decay_t<decltype(place_of)>;
    // The values that a thread takes at a time are of one sample, and of one pixel where channels lie last.
    flat(
        element, lies_last ? mask.channels : mask.elements,
        [&](auto number, auto lanes) {
          using T = decltype(number);
          launch(dropout_each<T, lanes, PlaceOf>, blocks_for(count / lanes), threads_per_block, stream(), mask,
                 place_of, as<T>(x), as<T>(y), count, accumulate);
        },
        x, y);
  };
  if (lies_last)
    drop(AsInPlanes{Axis(mask.channels), Axis(mask.pixels)});
  else
    drop(AsTheyLie{Axis(mask.elements)});
}

}  // namespace tutti::cuda
