// SPDX-License-Identifier: Apache-2.0
#include "strategy/exchange_bits.h"

namespace tutti {

void ExchangeBits::describe(config::Fields& f) {
  f.choice<Kind>("exchangeBits", kind,
                 {{"32", Kind::full},
                  {"16", Kind::half},
                  {"bf16", Kind::brain},
                  {"8", Kind::eight},
                  {"4", Kind::four},
                  {"2", Kind::two},
                  {"1", Kind::one}},
                 "bits per value that travels: 16 = float16; what rounding leaves out goes with the next exchange");
}

CodecOptions ExchangeBits::codec() const {
  switch (kind) {
    case Kind::half:
      return {.bits = 16, .format = NumberFormat::half};
    case Kind::brain:
      return {.bits = 16, .format = NumberFormat::brain};
    case Kind::eight:
      return {.bits = 8};
    case Kind::four:
      return {.bits = 4};
    case Kind::two:
      return {.bits = 2};
    case Kind::one:
      return {.bits = 1};
    case Kind::full:
      break;
  }
  return {};
}

}  // namespace tutti
