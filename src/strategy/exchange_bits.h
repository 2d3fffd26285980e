// SPDX-License-Identifier: Apache-2.0
// exchange_bits.h -- exchangeBits = 32 | 16 | bf16 | 8 | 4 | 2 | 1: in how many bits the values of any exchange travel.
#pragma once

#include "tutti/codec.h"
#include "tutti/config.h"

namespace tutti {

struct ExchangeBits {
  enum class Kind { full, half, brain, eight, four, two, one };
  Kind kind = Kind::full;
  void describe(config::Fields& f);
  CodecOptions codec() const;
};

}  // namespace tutti
