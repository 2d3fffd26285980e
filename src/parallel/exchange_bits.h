// SPDX-License-Identifier: Apache-2.0
// exchange_bits.h -- exchangeBits = 32 | 16 | bf16 | 8 | 4 | 2 | 1: in how many bits the values of any exchange travel;
// quantizer = adaptive | original: where the levels of 2, 4 and 8 bits lie.
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
