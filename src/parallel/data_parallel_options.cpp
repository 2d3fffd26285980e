// SPDX-License-Identifier: Apache-2.0
#include "parallel/data_parallel_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {

void DataParallelOptions::describe(config::Fields& f) {
  f("gradientBits", gradient_bits, "bits per gradient value, per epoch: 1, 2, 4, 8, 16, or 32 for no quantisation");
  for (const std::int64_t bits : gradient_bits.values) {
    if (bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 32) continue;
    if (bits == 64 && double_precision) continue;
    f.problem("gradientBits", fmt::format("gradients cannot travel in {} bits", bits),
              bits == 64 ? "64 bits need precision = \"double\"; write 32 for no quantisation"
                         : "write 1, 2, 4, 8, 16 or 32");
    break;
  }
  f("useZeroThresholdFor1BitQuantization", zero_threshold,
    "with 1 bit: true splits values at zero, false at the mean of their column");
  f("useBufferedAsyncGradientAggregation", buffered_async,
    "exchange gradients while the next minibatch is computed; updates are one minibatch late");
  f("resetResidualsEachEpoch", reset_residuals, "clear the residuals of quantisation at the start of each epoch");
  describe_exchange_bits(f);
}

// The key of all other methods. Its 16 bits are float16, while gradientBits = 16 means levels.
void DataParallelOptions::describe_exchange_bits(config::Fields& f) {
  ExchangeBits bits;
  bits.describe_bits(f);
  const bool by_exchange_bits = f.given("exchangeBits");
  const auto& epochs = gradient_bits.values;
  bits.quantizer = quantizer;
  bits.describe_quantizer(
      f, by_exchange_bits ? bits.has_levels()
                          : std::any_of(epochs.begin(), epochs.end(), [](std::int64_t b) { return b > 1 && b < 32; }));
  quantizer = bits.quantizer;
  if (!by_exchange_bits) return;
  if (f.given("gradientBits"))
    f.problem("exchangeBits", "both gradientBits and exchangeBits are given",
              "keep one of the two; gradientBits may change from epoch to epoch");
  gradient_bits = bits.codec().bits;
  sixteen_bits = bits.codec().format;
}

MethodTraits DataParallelOptions::traits() const {
  const auto& bits = gradient_bits.values;
  MethodTraits t;
  t.sums_gradients = t.shards = true;
  t.in_full = std::ranges::any_of(bits, [](std::int64_t b) { return b >= 32; });
  t.delayed = buffered_async;
  return t;
}

}  // namespace tutti
