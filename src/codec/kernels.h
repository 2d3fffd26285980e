// SPDX-License-Identifier: Apache-2.0
// kernels.h -- the loops of the codecs, once per instruction set. All variants come from one source (column_kernels.h)
// and give the same bits; docs/strategies.md describes the wire format and the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::codec {

enum class Threshold { zero, mean };
enum class Half { ieee, brain };  // 16 bits: half precision, bfloat16

struct Kernels {
  const char* name;
  // Whole columns; `residual` is added to the values and keeps what was lost.
  void (*encode_one_bit)(Threshold, std::size_t rows, std::size_t columns, const float* values, float* residual,
                         std::byte* out);
  void (*encode_levels)(int bits, std::size_t rows, std::size_t columns, const float* values, float* residual,
                        std::byte* out);
  void (*decode)(int bits, bool add, std::size_t rows, std::size_t columns, const std::byte* in, float* values);
  // Value by value; `residual` may be null.
  void (*encode_halves)(Half, std::size_t count, const float* values, float* residual, std::byte* out);
  void (*decode_halves)(Half, bool add, std::size_t count, const std::byte* in, float* values);
};

// Null when the processor (or the build) lacks the instructions.
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels& best_kernels();

// A column takes two floats and words of 32 bits. Where that is no less than the values themselves (one or two rows),
// the column travels as its reconstructed values: the same numbers in fewer bytes. Always inlined: the files for newer
// processors must not lend their copy to the others.
[[gnu::always_inline]] inline std::size_t words_per_column(int bits, std::size_t rows) {
  const std::size_t per_word = 32 / static_cast<std::size_t>(bits);
  return (rows + per_word - 1) / per_word;
}
[[gnu::always_inline]] inline bool travels_raw(int bits, std::size_t rows) {
  return 2 + words_per_column(bits, rows) >= rows;
}
[[gnu::always_inline]] inline std::size_t column_bytes(int bits, std::size_t rows) {
  return 4 * (travels_raw(bits, rows) ? rows : 2 + words_per_column(bits, rows));
}

}  // namespace tutti::codec
