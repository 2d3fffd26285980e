// SPDX-License-Identifier: Apache-2.0
// order.h -- what CUDA leaves open and the emulator has to choose: which block and which thread goes first, how far a
// stream runs before somebody waits for it, what fresh memory holds. By default blocks and threads go in the order of
// their numbers and streams as late as they can. TUTTI_CUDA_EMULATOR_ORDER names another order by a number: what is
// wrong without a barrier, a wait or an event goes wrong in some of them, each time in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cuda_emulator {

class Order {
 public:
  // Each thread of the host draws for itself, so that what one chooses does not depend on when another one does.
  static Order& of_thread();

  explicit Order(std::optional<std::uint64_t> number) : drawn_(number.has_value()), state_(number.value_or(0)) {}
  bool drawn() const { return drawn_; }
  // Below n; 0 where nothing is drawn.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((std::uint64_t{bits()} * n) >> 32); }
  std::uint32_t bits();
  void shuffle(std::span<unsigned> numbers);
  // What fresh memory is full of: nobody may come to rely on it.
  unsigned char fresh_byte();

 private:
  bool drawn_;
  std::uint64_t state_;
};

}  // namespace cuda_emulator
