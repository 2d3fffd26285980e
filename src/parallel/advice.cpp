// SPDX-License-Identifier: Apache-2.0
#include "parallel/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

using Lines = std::vector<std::string>;

constexpr std::int64_t kFewExchanges = 5;

void about_easgd(const EasgdOptions& o, const TrainingLength& t, Lines& lines) {
  const std::int64_t steps = (t.samples_per_epoch + t.minibatch - 1) / t.minibatch;
  const std::int64_t each = (steps + o.period - 1) / o.period;  // one of them at the end of the epoch
  if (each >= kFewExchanges || each * t.epochs >= kFewExchanges) return;
  const std::int64_t exchanges = each * t.epochs;
  lines.push_back(fmt::format(
      "EASGD: this training has only {} exchange{} ({} minibatches per epoch, period = {}). The saved model is the "
      "center, which changes only in exchanges. fix: set period = {} or less, or a smaller minibatchSize",
      exchanges, exchanges == 1 ? "" : "s", steps, o.period,
      std::max<std::int64_t>(1, steps * t.epochs / (2 * kFewExchanges))));
}

// An exchange resets the momentum of SGD as a whole, and fragments are exchanged one at a time.
void about_kept_momentum(const BlockMomentumOptions& o, Lines& lines) {
  if (!o.stream.settings.streams() || o.reset_given) return;
  lines.push_back(
      fmt::format("BlockMomentumSGD: with fragments or overlap the momentum of SGD is kept, adds to the block momentum "
                  "and may overshoot. fix: {}; set resetSGDMomentum = false to accept this",
                  o.outer.kind == OuterOptimizer::block_momentum
                      ? "ModelAveragingSGD, or outerOptimizer = nesterov with outerMomentum = 0.6"
                      : "outerMomentum = 0.6 or less, or lower learning rates"));
}

// The result of an exchange is applied `overlap` minibatches late, so that must be a small part of a block.
void about_overlap(const char* method, const StreamSettings& stream, std::int64_t block, const TrainingLength& t,
                   Lines& lines) {
  if (stream.overlap == 0) return;
  constexpr std::int64_t kOverlaps = 10;
  const std::int64_t minibatches = std::max<std::int64_t>(1, block / t.minibatch);
  const std::int64_t wanted = kOverlaps * stream.overlap * stream.fragments;
  if (minibatches >= wanted) return;
  lines.push_back(
      fmt::format("{}: a block has {} minibatch{}, and each of its {} exchange{} is applied {} minibatches late, so "
                  "training may not converge. fix: set blockSize = {} or more ({} minibatches), or overlap = 0",
                  method, minibatches, minibatches == 1 ? "" : "es", stream.fragments, stream.fragments == 1 ? "" : "s",
                  stream.overlap, wanted * t.minibatch, wanted));
}

void about_level(const ParallelTrainOptions& o, const TrainingLength& t, int ranks, Lines& lines) {
  if (const auto* easgd = std::get_if<EasgdOptions>(&o.method)) about_easgd(*easgd, t, lines);
  if (const auto* b = std::get_if<BlockMomentumOptions>(&o.method)) {
    about_kept_momentum(*b, lines);
    about_overlap(b->name, b->stream.settings, b->block.all(ranks), t, lines);
  }
  if (const auto* m = std::get_if<ModelAveragingOptions>(&o.method); m && m->given)
    about_overlap(m->name, m->stream.settings, m->block.all(ranks), t, lines);
}

void unused_blocks(const ParallelTrainOptions& o, Lines& lines) {
  const auto& blocks = o.unused_blocks;
  if (blocks.empty()) return;
  lines.push_back(fmt::format("{}: the block{} {} {} no effect with parallelizationMethod = {}",
                              o.depth == 0 ? "ParallelTrain" : "insideGroups", blocks.size() == 1 ? "" : "s",
                              fmt::join(blocks, ", "), blocks.size() == 1 ? "has" : "have",
                              o.automatic ? "auto" : name_of(o.method)));
}

// Of all methods.
void unused_alone(const ParallelTrainOptions& o, Lines& lines) {
  if (o.exchanges()) return;
  for (const auto& [key, given] :
       {std::pair("transport", o.transport != Transport::automatic),
        std::pair("parallelizationStartEpoch", o.start_epoch > 1),
        std::pair("parallelizationStartSample", o.start_sample > 0), std::pair("syncPerfStats", o.sync_perf_stats > 0),
        std::pair("faultHook", o.fault_hook.has_value())})
    if (given) lines.push_back(fmt::format("{} has no effect with parallelizationMethod = {}", key, name_of(o.method)));
}

void unused_gradient_settings(const DataParallelOptions& o, Lines& lines) {
  const auto all = [&](auto holds) { return std::ranges::all_of(o.gradient_bits.values, holds); };
  if (o.reset_residuals && all([](std::int64_t bits) { return bits >= 32; }))
    lines.push_back("resetResidualsEachEpoch has no effect with gradients in 32 bits: there are no residuals");
  if (!o.zero_threshold && all([](std::int64_t bits) { return bits != 1; }))
    lines.push_back("useZeroThresholdFor1BitQuantization has no effect without gradients in 1 bit");
}

void unused_server_settings(const ServerOptions& o, Lines& lines) {
  if (o.unused_pipeline) lines.push_back("usePipeline has no effect with SimModelAverage: averages are waited for");
  const std::int64_t period = std::ranges::min(o.sync_period.values);
  if (o.fetch_period > 0 && !o.every_minibatch && o.fetch_period <= period)
    lines.push_back(
        fmt::format("fetchPeriod = {} has no effect: a worker pushes every {} samples or more, and each push fetches",
                    o.fetch_period, period));
}

}  // namespace

std::vector<std::string> unused_settings(const ParallelTrainOptions& options) {
  Lines lines;
  for (const ParallelTrainOptions* level = &options; level;
       level = level->inside_groups.level.empty() ? nullptr : level->inside_groups.level.data()) {
    unused_blocks(*level, lines);
    unused_alone(*level, lines);
    if (const auto* gradients = std::get_if<DataParallelOptions>(&level->method))
      unused_gradient_settings(*gradients, lines);
    if (const auto* servers = std::get_if<ServerOptions>(&level->method)) unused_server_settings(*servers, lines);
  }
  return lines;
}

std::vector<std::string> exchange_advice(const ParallelTrainOptions& options, const TrainingLength& length, int ranks) {
  Lines lines;
  about_level(options, length, ranks, lines);
  for (ParallelTrainOptions level = options; level.groups.any();) {
    const ParallelTrainOptions inside = level.inside();
    if (level.traits().delayed && inside.traits().delayed)
      lines.push_back(
          "useBufferedAsyncGradientAggregation is set both between and inside groups: gradients are two minibatches "
          "late, which costs accuracy. fix: remove it from insideGroups");
    level = inside;
  }
  return lines;
}

}  // namespace tutti
