// SPDX-License-Identifier: Apache-2.0
#include "order.h"

#include <cstdlib>
#include <utility>

namespace cuda_emulator {
namespace {

std::optional<std::uint64_t> named() {
  const char* const number = std::getenv("TUTTI_CUDA_EMULATOR_ORDER");
  if (!number || !*number) return std::nullopt;
  return std::strtoull(number, nullptr, 10);
}

}  // namespace

Order& Order::of_thread() {
  static thread_local Order order(named());
  return order;
}

// SplitMix64.
std::uint32_t Order::bits() {
  if (!drawn_) return 0;
  std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) >> 32);
}

void Order::shuffle(std::span<unsigned> numbers) {
  if (!drawn_) return;
  for (auto left = static_cast<std::uint32_t>(numbers.size()); left > 1; --left)
    std::swap(numbers[left - 1], numbers[below(left)]);
}

// Numbers that are small, large or none, as floats, as doubles, as halves, and as indices.
unsigned char Order::fresh_byte() {
  constexpr unsigned char all[] = {0xee, 0xff, 0x7f, 0x3f, 0x01, 0xa5};
  return all[below(sizeof all)];
}

}  // namespace cuda_emulator
