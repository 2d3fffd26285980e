// SPDX-License-Identifier: Apache-2.0
// exchange_bits.h -- two settings of every exchange. exchangeBits = 32 | 16 | bf16 | 8 | 4 | 2 | 1: bits per exchanged
// value. quantizer = adaptive | original: the levels of 2, 4 and 8 bits.
#pragma once

#include "tutti/codec.h"
#include "tutti/config.h"

namespace tutti {

struct ExchangeBits {
  enum class Kind { full, half, brain, eight, four, two, one };
  Kind kind = Kind::full;
  Quantizer quantizer = Quantizer::adaptive;
  void describe(config::Fields& f);
  // The two keys of describe().
  void describe_bits(config::Fields& f);
  void describe_quantizer(config::Fields& f, bool has_levels);
  bool has_levels() const { return kind == Kind::eight || kind == Kind::four || kind == Kind::two; }
  CodecOptions codec() const;
};

}  // namespace tutti
