// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

void YoungRate::describe(config::Fields& f) {
  f.choice<Shape>("adjustType", shape,
                  {{"staircase", Shape::staircase}, {"linearly", Shape::linearly}, {"none", Shape::none}},
                  "how the factor on pushes rises to 1");
  f("adjustCoefficient", coefficient, "factor on the first pushes, and the height of a step of the staircase");
  f.alias("adjustNbMinibatch", "adjustPerMinibatches", "the name in CNTK's documents");
  f("adjustPerMinibatches", per_minibatches,
    "pushes per worker and step of the staircase, or until the end of a linear rise");
  if (!(coefficient > 0 && coefficient <= 1)) f.problem("adjustCoefficient", "adjustCoefficient must lie in (0, 1]");
  if (per_minibatches < 1) f.problem("adjustPerMinibatches", "adjustPerMinibatches must be at least 1");
}

double YoungRate::factor(std::int64_t syncs) const {
  const auto t = static_cast<double>(syncs), per = static_cast<double>(per_minibatches);
  double f = 1;
  if (shape == Shape::linearly) f = coefficient + (1 - coefficient) / per * t;
  if (shape == Shape::staircase) f = coefficient * static_cast<double>(syncs / per_minibatches + 1);
  return std::clamp(static_cast<double>(static_cast<float>(f)), 0.0, 1.0);
}

void ServerOptions::describe(config::Fields& f) {
  f.choice<Policy>("policy", policy, {{"async", Policy::async}, {"sync", Policy::sync}, {"mixed", Policy::mixed}},
                   "async: every push counts at once; sync: the pushes of all workers make one update; mixed: those of "
                   "workers/softSync do, and nobody waits");
  f.choice<Push>("push", push, {{"deltas", Push::deltas}, {"gradients", Push::gradients}},
                 "deltas: what a worker's own updates changed; gradients: the optimizer runs at the servers");
  f.alias("syncPeriodPerWorkers", "syncPeriod");
  f.alias("syncPeriodPerWorker", "syncPeriod");
  f("syncPeriod", sync_period,
    "samples per worker between two pushes, per epoch; with push = gradients the default is every minibatch");
  every_minibatch = push == Push::gradients && !f.given("syncPeriod");
  f("fetchPeriod", fetch_period, "samples per worker between two fetches of weights; 0 = with every push");
  f("usePipeline", pipeline, "push and fetch while the next samples are computed; weights are one push late");
  f("SimModelAverage", average, "average the weights of all workers at the servers, as ModelAveragingSGD does");
  f.block("AdjustLearningRateAtBeginning", young, "a smaller learning rate during warm-up");
  f("maxStaleness", max_staleness,
    "number of pushes of other workers that a worker may not have seen; it waits at this limit; -1 = no limit");
  f("backupWorkers", backup_workers,
    "with policy = sync: an update takes the gradients of the first (workers - backupWorkers) workers");
  f("softSync", soft_sync, "with policy = mixed: number of updates per round in which every worker pushes once");
  f("servers", servers, "number of ranks, the last ones, that only serve; 0 = every worker also serves");
  bits.describe(f);
  if (average) {
    if (!f.given("policy")) policy = Policy::sync;
    if (std::exchange(pipeline, false)) unused_pipeline = true;  // averages are waited for
  }
  check(f);
}

void ServerOptions::check(config::Fields& f) const {
  const auto any = [&](auto bad) { return std::ranges::any_of(sync_period.values, bad); };
  if (any([](std::int64_t period) { return period < 1; }))
    f.problem("syncPeriod", "syncPeriod must be at least 1 sample", "leave it out to push after every minibatch");
  if (any([](std::int64_t period) { return period > kLongestPeriod; }))
    f.problem("syncPeriod", fmt::format("syncPeriod must be at most {} samples", kLongestPeriod));
  if (fetch_period < 0) f.problem("fetchPeriod", "a number of samples cannot be negative", "write 0 or more");
  if (max_staleness < -1)
    f.problem("maxStaleness", "maxStaleness is a number of pushes", "write 0 or more, or -1 for any");
  if (backup_workers < 0) f.problem("backupWorkers", "a number of workers cannot be negative", "write 0 or more");
  if (soft_sync < 1) f.problem("softSync", "softSync must be at least 1", "write a number of updates per round");
  if (servers < 0) f.problem("servers", "a number of ranks cannot be negative", "write 0 or more");
  const bool async = policy == Policy::async, sync = policy == Policy::sync;
  if (max_staleness >= 0 && !async)
    f.problem("maxStaleness", "maxStaleness needs policy = async",
              "remove maxStaleness; with policy = sync there is no staleness");
  if (pipeline && !async) f.problem("usePipeline", "usePipeline needs policy = async", "remove one of the two");
  if (pipeline && max_staleness >= 0)
    f.problem("usePipeline", "usePipeline and maxStaleness cannot be combined: each pipelined push is one push staler",
              "keep one of the two");
  if (backup_workers > 0 && !(sync && push == Push::gradients))
    f.problem("backupWorkers", "backupWorkers needs policy = sync and push = gradients",
              "add both, or remove backupWorkers");
  else if (backup_workers > 0 && !every_minibatch)
    f.problem("backupWorkers", "with backupWorkers gradients are pushed after every minibatch", "leave syncPeriod out");
  // In 1 bit, the quantisation error of a sum over several minibatches is large. The worker continues from weights
  // without it and learns it again before it arrives; blocks in few bits behave the same (docs/methods). Measured: 16
  // to 18 % errors on MNIST instead of 2 %.
  if (push == Push::gradients && !every_minibatch && bits.kind == ExchangeBits::Kind::one)
    f.problem("exchangeBits",
              "sums of gradients over several minibatches cannot be pushed in 1 bit: their residuals arrive too late",
              "exchangeBits = 2, or push = deltas, or leave syncPeriod out to push after every minibatch");
  if (f.given("softSync") && policy != Policy::mixed)
    f.problem("softSync", "softSync needs policy = mixed", "add policy = mixed, or remove softSync");
  if (fetch_period > 0 && sync)
    f.problem("fetchPeriod", "with policy = sync weights come with every push", "remove fetchPeriod");
  if (fetch_period > 0 && max_staleness >= 0)
    f.problem("fetchPeriod",
              "maxStaleness counts from fetch to push, and with fetchPeriod a push does not fetch: it would not bound "
              "anything",
              "remove one of the two");
  if (fetch_period > 0 && pipeline)
    f.problem("fetchPeriod", "usePipeline fetches with every push", "remove one of the two");
  if (average && push != Push::deltas)
    f.problem("SimModelAverage", "SimModelAverage averages weights and cannot push gradients",
              "remove push = gradients");
  if (average && !sync)
    f.problem("SimModelAverage", "SimModelAverage waits for all workers, so policy has no effect", "remove policy");
  if (average && young)
    f.problem("AdjustLearningRateAtBeginning", "AdjustLearningRateAtBeginning has no effect with SimModelAverage",
              "remove one of the two");
}

}  // namespace tutti
