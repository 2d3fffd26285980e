// SPDX-License-Identifier: Apache-2.0
#include "parallel/data_parallel_options.h"

#include <fmt/format.h>

#include "parallel/all_reduce_gradients.h"

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

std::string name_of_bits(std::int64_t bits, NumberFormat format) {
  if (bits == 16 && format == NumberFormat::half) return "float16";
  if (bits == 16 && format == NumberFormat::brain) return "bfloat16";
  return fmt::format("{} bit{}", bits, bits == 1 ? "" : "s");
}

namespace {

std::string describe(const DataParallelOptions& o, const ResolvedTransport& transport, int ranks) {
  const auto& values = o.gradient_bits.values;
  std::string bits;
  for (const std::int64_t b : values) bits += fmt::format("{}{}", bits.empty() ? "" : ":", b);
  return fmt::format("{} on {} rank{}, gradients in {}{}{}{}", o.method, ranks, ranks == 1 ? "" : "s",
                     values.size() == 1 ? name_of_bits(values[0], o.sixteen_bits) : bits + " bits",
                     bits.find('1') == 0 && !o.zero_threshold ? ", mean threshold" : "", transport.text,
                     o.buffered_async ? ", one minibatch behind" : "");
}

}  // namespace

ParallelMethod DataParallelOptions::make(const MethodContext& context) const {
  const DataParallelOptions& o = *this;
  Communicator& comm = context.comm;
  ParallelMethod m;
  m.traits = traits();
  const auto& bits = o.gradient_bits.values;
  const bool lossy = std::any_of(bits.begin(), bits.end(), [](std::int64_t b) { return travelling_bits(b) < 32; });
  m.traits.text = tutti::describe(o, context.transport, comm.size());
  m.traits.sums_contributions = !o.buffered_async;
  m.traits.sums_on_devices = context.transport.device_sums != nullptr;
  // The residual would accumulate quantisation errors of discarded gradients.
  m.traits.overflow = o.buffered_async ? OverflowCheck::exchange_zeros
                      : lossy          ? OverflowCheck::agree
                                       : OverflowCheck::reduced;
  m.data.share = m.data.unit_share = {comm.rank(), comm.size()};
  m.metrics.per_step = m.update_ranks = &comm;
  m.loop_text = [o, rank = comm.rank(), ranks = comm.size()](std::int64_t epoch) {
    return fmt::format(", {} training (myRank = {}, numNodes = {}, numGradientBits = {}){}", o.method, rank, ranks,
                       o.gradient_bits.at(static_cast<std::size_t>(epoch)),
                       o.buffered_async ? ", BufferedAsyncGradientAggregation is ENABLED" : "");
  };
  m.gradients = std::make_unique<AllReduceGradients>(o, context.print_every, context.transport, comm);
  return m;
}

}  // namespace tutti
