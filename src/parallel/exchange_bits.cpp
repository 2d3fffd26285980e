// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange_bits.h"

namespace tutti {

void ExchangeBits::describe(config::Fields& f) {
  describe_bits(f);
  describe_quantizer(f, has_levels());
}

void ExchangeBits::describe_bits(config::Fields& f) {
  f.choice<Kind>("exchangeBits", kind,
                 {{"32", Kind::full},
                  {"16", Kind::half},
                  {"bf16", Kind::brain},
                  {"8", Kind::eight},
                  {"4", Kind::four},
                  {"2", Kind::two},
                  {"1", Kind::one}},
                 "bits per exchanged value: 16 = float16; the quantisation error is added to the next exchange");
}

void ExchangeBits::describe_quantizer(config::Fields& f, bool has_levels) {
  f.choice<Quantizer>("quantizer", quantizer, {{"adaptive", Quantizer::adaptive}, {"original", Quantizer::original}},
                      "levels of 2, 4 and 8 bits: adaptive = fitted to each column; original = those of CNTK, which "
                      "span 4 standard deviations");
  if (f.given("quantizer") && !has_levels)
    f.problem("quantizer", "quantizer has no effect with this number of bits",
              "leave quantizer out, or exchange 2, 4 or 8 bits");
}

CodecOptions ExchangeBits::codec() const {
  switch (kind) {
    case Kind::half:
      return {.bits = 16, .format = NumberFormat::half};
    case Kind::brain:
      return {.bits = 16, .format = NumberFormat::brain};
    case Kind::eight:
      return {.bits = 8, .quantizer = quantizer};
    case Kind::four:
      return {.bits = 4, .quantizer = quantizer};
    case Kind::two:
      return {.bits = 2, .quantizer = quantizer};
    case Kind::one:
      return {.bits = 1};
    case Kind::full:
      break;
  }
  return {};
}

}  // namespace tutti
