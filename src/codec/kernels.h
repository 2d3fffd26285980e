// SPDX-License-Identifier: Apache-2.0
// kernels.h -- the codec loops, one set per instruction set. All sets are compiled from one source (column_kernels.h)
// and give the same bits. docs/methods/quantization.md describes the wire format and the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/instruction_set.h"

namespace tutti {

class Codec;
struct CodecOptions;

namespace codec {

enum class Threshold { zero, mean };
enum class Half { ieee, brain };  // 16 bits: half precision, bfloat16

// The wire format of columns.
struct Format {
  int bits = 1;
  bool adaptive = false;                  // levels fitted to each column; never with 1 bit
  Threshold threshold = Threshold::zero;  // of 1 bit
};

struct Kernels {
  const char* name;
  // Whole columns; `residual` is added to the values and receives the quantisation error.
  void (*encode)(Format, std::size_t rows, std::size_t columns, const float* values, float* residual, std::byte* out);
  void (*decode)(Format, bool add, std::size_t rows, std::size_t columns, const std::byte* in, float* values);
  // Value by value; `residual` may be null.
  void (*encode_halves)(Half, std::size_t count, const float* values, float* residual, std::byte* out);
  void (*decode_halves)(Half, bool add, std::size_t count, const std::byte* in, float* values);
};

template <InstructionSet>
const Kernels& kernels();
const Kernels& best_kernels();
Format format_of(const CodecOptions&);  // of the levels of 1, 2, 4, 8 and 16 bits

// A column takes a head of two or four floats and words of 32 bits. Where that is no less than the values themselves,
// these travel: with adaptive levels as they are, with the others as they would be reconstructed. Always inlined: the
// linker keeps one copy of an ordinary inline function, and one compiled for AVX-512 must not serve older processors.
// The floats between which the levels lie; adaptive ones have a range on either side of 0.
[[gnu::always_inline]] inline std::size_t head_floats(Format f) { return f.adaptive ? 4 : 2; }
[[gnu::always_inline]] inline std::size_t words_per_column(int bits, std::size_t rows) {
  const std::size_t per_word = 32 / static_cast<std::size_t>(bits);
  return (rows + per_word - 1) / per_word;
}
[[gnu::always_inline]] inline bool travels_raw(Format f, std::size_t rows) {
  return head_floats(f) + words_per_column(f.bits, rows) >= rows;
}
// The index of the last level of either half. Each divides the next, so a width contains all levels of the smaller
// ones.
[[gnu::always_inline]] constexpr int last_level(int bits) {
  return bits == 2 ? 1 : bits == 4 ? 7 : bits == 8 ? 7 * 18 : 7 * 18 * 260;
}
[[gnu::always_inline]] inline std::size_t column_bytes(Format f, std::size_t rows) {
  return 4 * (travels_raw(f, rows) ? rows : head_floats(f) + words_per_column(f.bits, rows));
}

}  // namespace codec

// Over given kernels, for tests and benchmarks that compare instruction sets.
std::unique_ptr<Codec> make_codec(const CodecOptions&, const codec::Kernels&);

}  // namespace tutti
