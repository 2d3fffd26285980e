// SPDX-License-Identifier: Apache-2.0
// instruction_set.h -- the instruction sets that hot loops are compiled for, each from the same source with its own
// flags. A library declares `template <InstructionSet> const Kernels& kernels()`, and that source defines
// kernels<compiled_for>().
#pragma once

namespace tutti {

enum class InstructionSet { portable, avx2, avx512 };

// By the flags of the including source.
#if defined(__AVX512F__)
constexpr InstructionSet compiled_for = InstructionSet::avx512;
constexpr const char* compiled_name = "AVX-512";
#elif defined(__AVX2__)
constexpr InstructionSet compiled_for = InstructionSet::avx2;
constexpr const char* compiled_name = "AVX2";
#else
constexpr InstructionSet compiled_for = InstructionSet::portable;
constexpr const char* compiled_name = "x86-64-v2";
#endif

// The widest set of which this processor has everything that our flags ask for, and that oneDNN may use
// (ONEDNN_MAX_CPU_ISA).
InstructionSet widest_set();

// Calls use<set>() for every set that this processor has, the widest last.
template <class Use>
void for_each_set(const Use& use) {
  use.template operator()<InstructionSet::portable>();
#if defined(__x86_64__)
  if (widest_set() >= InstructionSet::avx2) use.template operator()<InstructionSet::avx2>();
  if (widest_set() >= InstructionSet::avx512) use.template operator()<InstructionSet::avx512>();
#endif
}

// The result of get<set>() for the widest one.
template <class Get>
auto of_widest_set(const Get& get) {
  auto result = get.template operator()<InstructionSet::portable>();
  for_each_set([&]<InstructionSet set>() { result = get.template operator()<set>(); });
  return result;
}

}  // namespace tutti
