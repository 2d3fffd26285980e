// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_sgd/block_options.h"

#include <fmt/format.h>
#include <fmt/printf.h>

#include <cmath>
#include <utility>

#include "parallel/local_sgd/block_exchange.h"
#include "tutti/error.h"

namespace tutti {
namespace {

void number_of_samples(config::Fields& f, const char* key, std::int64_t v) {
  if (f.given(key) && v < 1) f.problem(key, fmt::format("{} must be at least 1 sample", key));
  if (v > kLongestPeriod) f.problem(key, fmt::format("{} must be at most {} samples", key, kLongestPeriod));
}

void fraction(config::Fields& f, const char* key, double v) {
  if (f.given(key) && !(v >= 0 && v < 1)) f.problem(key, fmt::format("{} must lie in [0, 1)", key));
}

void positive(config::Fields& f, const char* key, double v) {
  if (!(v > 0 && std::isfinite(v))) f.problem(key, fmt::format("{} must be a positive number", key));
}

}  // namespace

void BlockSize::describe(config::Fields& f) {
  f("blockSizePerWorker", per_worker, "samples per rank between two exchanges of weights");
  f("blockSize", total, "samples over all ranks between two exchanges; replaces blockSizePerWorker");
  if (f.given("blockSize") && f.given("blockSizePerWorker"))
    f.problem("blockSize", "both blockSize and blockSizePerWorker are given", "keep one of the two");
  number_of_samples(f, "blockSizePerWorker", per_worker);
  number_of_samples(f, "blockSize", total);
}

void StreamOptions::describe(config::Fields& f) {
  f("fragments", settings.fragments, "number of parts of the weights, exchanged one after the other during a block");
  f("overlap", settings.overlap, "minibatches to train while an exchange is in flight; 0 = training waits");
  f("overlapMixing", settings.mixing,
    "after an overlapped exchange: share of the rank's own weights in the new ones, 0 to 1; -1 = add what the rank "
    "learned meanwhile");
  if (settings.fragments < 1) f.problem("fragments", "fragments must be at least 1");
  if (settings.overlap < 0) f.problem("overlap", "a number of minibatches cannot be negative");
  if (!f.given("overlapMixing")) return;
  if (settings.overlap < 1) f.problem("overlapMixing", "overlapMixing needs overlap = 1 or more", "leave the key out");
  if (settings.mixing != -1 && !(settings.mixing >= 0 && settings.mixing <= 1))
    f.problem("overlapMixing", "overlapMixing must lie in [0, 1]", "write -1 to add what the rank learned meanwhile");
}

void ModelAveragingOptions::describe(config::Fields& f) {
  f.alias("syncFrequencyInFrames", "blockSizePerWorker", "the old name");
  f.alias("syncPeriod", "blockSizePerWorker", "samples of each rank between two exchanges");
  block.describe(f);
  bits.describe(f);
  stream.describe(f);
}

void BlockMomentumOptions::describe(config::Fields& f) {
  f.alias("syncPeriod", "blockSizePerWorker", "the old name");
  block.describe(f);
  bits.describe(f);
  stream.describe(f);
  f("resetSGDMomentum", reset_sgd_momentum,
    "clear the momentum of SGD after every exchange; default true, but false with fragments or overlap");
  reset_given = f.given("resetSGDMomentum");
  if (stream.settings.streams() && !reset_given) reset_sgd_momentum = false;
  if (stream.settings.streams() && reset_sgd_momentum)
    f.problem(
        "resetSGDMomentum",
        "resetSGDMomentum = true cannot be combined with fragments or overlap, whose exchanges happen during steps",
        "remove resetSGDMomentum, or fragments and overlap");
  f("useNesterovMomentum", nesterov, "apply Nesterov momentum to the block update");
  f("blockLearningRate", learning_rate, "factor on the change of the weights in a block, summed over the ranks");
  f("blockMomentumAsTimeConstant", time_constant,
    "block momentum as a time constant in samples over all ranks; -1 = from the number of ranks");
  f("blockMomentumPerSync", per_sync,
    "block momentum per exchange; replaces blockMomentumAsTimeConstant; -1 = 1 - 1/ranks");
  if (f.given("blockMomentumAsTimeConstant") && f.given("blockMomentumPerSync"))
    f.problem("blockMomentumPerSync", "both blockMomentumAsTimeConstant and blockMomentumPerSync are given",
              "keep one of the two");
  if (per_sync != -1) fraction(f, "blockMomentumPerSync", per_sync);
  if (time_constant != -1 && !(time_constant >= 0 && std::isfinite(time_constant)))
    f.problem("blockMomentumAsTimeConstant",
              "blockMomentumAsTimeConstant is a number of samples and must not be negative");
  if (!(learning_rate >= 0 && std::isfinite(learning_rate)))
    f.problem("blockLearningRate", "blockLearningRate must not be negative");
  describe_outer(f);
}

void BlockMomentumOptions::describe_outer(config::Fields& f) {
  f.choice<OuterOptimizer>(
      "outerOptimizer", outer.kind,
      {{"blockMomentum", OuterOptimizer::block_momentum},
       {"nesterov", OuterOptimizer::nesterov},
       {"sgd", OuterOptimizer::sgd},
       {"adam", OuterOptimizer::adam}},
      "what is made of the blocks; all but blockMomentum take the mean over the ranks as gradient");
  f("outerLearningRate", outer.rate, "learning rate of outerOptimizer = nesterov, sgd or adam");
  f("outerMomentum", outer.momentum, "momentum of outerOptimizer = nesterov");
  f("outerBeta1", outer.beta1, "outerOptimizer = adam");
  f("outerBeta2", outer.beta2, "outerOptimizer = adam");
  f("outerEpsilon", outer.epsilon, "outerOptimizer = adam");
  positive(f, "outerLearningRate", outer.rate);
  positive(f, "outerEpsilon", outer.epsilon);
  fraction(f, "outerMomentum", outer.momentum);
  fraction(f, "outerBeta1", outer.beta1);
  fraction(f, "outerBeta2", outer.beta2);
  const bool blocks = outer.kind == OuterOptimizer::block_momentum;
  const auto belongs = [&](bool used, std::initializer_list<const char*> keys, const char* to) {
    for (const char* key : keys)
      if (!used && f.given(key))
        f.problem(key, fmt::format("{} needs outerOptimizer = {}", key, to), "leave the key out");
  };
  belongs(blocks, {"useNesterovMomentum", "blockLearningRate", "blockMomentumAsTimeConstant", "blockMomentumPerSync"},
          "blockMomentum");
  belongs(!blocks, {"outerLearningRate"}, "nesterov, sgd or adam");
  belongs(outer.kind == OuterOptimizer::nesterov, {"outerMomentum"}, "nesterov");
  belongs(outer.kind == OuterOptimizer::adam, {"outerBeta1", "outerBeta2", "outerEpsilon"}, "adam");
}

double BlockMomentumOptions::momentum(int ranks) const {
  if (per_sync >= 0) return per_sync;
  if (time_constant < 0) return 1 - 1.0 / ranks;
  if (time_constant == 0) return 0;
  return std::exp(-block.mean(ranks) / (time_constant / ranks));
}

double BlockMomentumOptions::time_constant_per_worker(int ranks) const {
  if (time_constant >= 0 && per_sync < 0) return time_constant / ranks;
  const double m = momentum(ranks);
  return m > 0 ? -block.mean(ranks) / std::log(m) : 0;
}

namespace {

MethodTraits traits_of_blocks(const ExchangeBits& bits) {
  MethodTraits t;
  t.shards = true;
  t.in_full = bits.kind == ExchangeBits::Kind::full;
  return t;
}

}  // namespace

MethodTraits ModelAveragingOptions::traits() const { return traits_of_blocks(bits); }
MethodTraits BlockMomentumOptions::traits() const { return traits_of_blocks(bits); }

ParallelMethod ModelAveragingOptions::make(const MethodContext& context) const {
  Communicator& comm = context.comm;
  BlockSettings s;
  s.name = "ModelAveragingSGD";
  s.block_size = given ? block.all(comm.size()) : 0;
  if (given) s.codec = bits.codec(), s.stream = stream.settings;
  s.once_text = fmt::format("Parallel training ({} workers) using ModelAveraging", comm.size());
  s.transport = context.transport;
  s.logs_exchanges = true;
  s.print_every = context.print_every;
  return make_block_exchange(std::move(s), make_averaging_rule(comm.size()), comm);
}

ParallelMethod BlockMomentumOptions::make(const MethodContext& context) const {
  const BlockMomentumOptions& o = *this;
  Communicator& comm = context.comm;
  const int ranks = comm.size();
  BlockSettings s;
  s.name = "BlockMomentumSGD";
  s.block_size = o.block.all(ranks);
  s.codec = o.bits.codec();
  s.transport = context.transport;
  s.stream = o.stream.settings;
  s.reset_momentum = o.reset_sgd_momentum;
  s.logs_exchanges = true;
  s.print_every = context.print_every;
  if (o.outer.kind != OuterOptimizer::block_momentum) {
    auto rule = make_outer_rule(o.outer, ranks);
    s.epoch_text = fmt::format("Parallel training ({} workers) with {}, block size per worker = {} samples.", ranks,
                               rule->describe(), o.block.each(ranks));
    return make_block_exchange(std::move(s), std::move(rule), comm);
  }
  const double m = o.momentum(ranks);
  if (m >= 1)
    throw ConfigError({},
                      fmt::format("blockMomentumAsTimeConstant = {:g} gives blocks of {} samples a block momentum of "
                                  "1, with which nothing is learned",
                                  o.time_constant, s.block_size),
                      "a smaller blockMomentumAsTimeConstant, or larger blocks");
  s.filters = m > 0;
  s.epoch_text = fmt::sprintf(
      "Parallel training (%d workers) using BlockMomentumSGD with block momentum = %6.4f, block momentum time constant "
      "(per worker) = %6.4f, block learning rate = %6.4f, block size per worker = %d samples%s%s",
      ranks, m, o.time_constant_per_worker(ranks), o.learning_rate, o.block.each(ranks),
      o.nesterov ? ", using Nesterov-style block momentum" : "",
      o.reset_sgd_momentum ? ", resetting SGD momentum after sync." : ".");
  if (m == 0) s.once_text = "WARNING: blockMomentum equals to zero.";
  if (const double step = (1 - m) * o.learning_rate * ranks; step >= 2)
    s.once_text += fmt::format(
        "{}WARNING: (1 - block momentum) * block learning rate * workers = {:g}: a block goes {:g} times as far as the "
        "mean of the ranks and may overshoot. fix: blockLearningRate = {:g} goes as far as the mean",
        s.once_text.empty() ? "" : "\n", step, step, 1 / ((1 - m) * ranks));
  return make_block_exchange(std::move(s), make_block_momentum_rule({m, o.learning_rate, o.nesterov}), comm);
}

}  // namespace tutti
