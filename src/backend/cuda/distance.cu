// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/distance.h"

#include <array>

#include "backend/cuda/element.h"
#include "backend/cuda/team.h"
#include "base/cuda/launch.h"
#include "base/cuda/runtime.h"

namespace tutti::cuda {
namespace {

template <class T>
__global__ void distance_of_block(std::size_t count, const T* expected, const T* got, Distance* to) {
  Distance mine;
  for (std::size_t i = first_element(); i < count; i += element_step()) {
    const auto wanted = static_cast<double>(value_of(expected[i]));
    mine.apart += fabs(static_cast<double>(value_of(got[i])) - wanted);
    mine.size += fabs(wanted);
  }
  mine.apart = together<threads_per_block>(mine.apart, Plus());
  mine.size = together<threads_per_block>(mine.size, Plus());
  if (threadIdx.x == 0) to[blockIdx.x] = mine;
}

template <class T>
__global__ void trial_numbers(std::size_t count, unsigned seed, T* to) {
  for (std::size_t i = first_element(); i < count; i += element_step()) {
    unsigned bits = (static_cast<unsigned>(i) + seed) * 2654435761u;
    bits ^= bits >> 15;
    round_to(to[i], static_cast<float>(static_cast<int>(bits * 2246822519u >> 28) - 8) / 8);
  }
}

}  // namespace

Distance distance(const void* expected, const void* got, std::size_t count, Element element, cudaStream_t stream) {
  constexpr unsigned blocks = 256;
  constexpr const char* doing = "comparing algorithms";
  Scratch workspace;
  auto* on_device = workspace.reserve<Distance>(blocks);
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch(distance_of_block<T>, blocks, threads_per_block, stream, count, static_cast<const T*>(expected),
           static_cast<const T*>(got), on_device);
  });
  std::array<Distance, blocks> of_blocks;
  check(cudaMemcpyAsync(of_blocks.data(), on_device, sizeof of_blocks, cudaMemcpyDeviceToHost, stream), doing);
  check(cudaStreamSynchronize(stream), doing);
  Distance all;
  for (const Distance& d : of_blocks) all.apart += d.apart, all.size += d.size;
  return all;
}

void put_trial_numbers(void* to, std::size_t count, Element element, unsigned seed, cudaStream_t stream) {
  with_type(element, [&](auto number) {
    using T = decltype(number);
    launch(trial_numbers<T>, blocks_for(count), threads_per_block, stream, count, seed, static_cast<T*>(to));
  });
}

}  // namespace tutti::cuda
