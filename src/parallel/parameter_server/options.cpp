// SPDX-License-Identifier: Apache-2.0
#include "parallel/parameter_server/options.h"

#include <algorithm>

namespace tutti {

void YoungRate::describe(config::Fields& f) {
  f.choice<Shape>("adjustType", shape,
                  {{"staircase", Shape::staircase}, {"linearly", Shape::linearly}, {"none", Shape::none}},
                  "how pushes come to count fully");
  f("adjustCoefficient", coefficient, "by how much the first pushes count, and the height of a stair");
  f.alias("adjustNbMinibatch", "adjustPerMinibatches", "the name in the documents");
  f("adjustPerMinibatches", per_minibatches, "pushes of a worker to a stair, or until a linear rise ends");
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
    "samples of each worker between two pushes, per epoch; gradients unless given: every minibatch");
  every_minibatch = push == Push::gradients && !f.given("syncPeriod");
  f("fetchPeriod", fetch_period, "samples of each worker between two fetches of weights; 0 = with every push");
  f("usePipeline", pipeline, "push and fetch while the next samples compute; weights come one push late");
  f("SimModelAverage", average, "all workers average their weights at the servers, as ModelAveragingSGD does");
  f.block("AdjustLearningRateAtBeginning", young, "a smaller learning rate during warm-up");
  f("maxStaleness", max_staleness,
    "pushes of others that a push may miss; workers wait to keep to it; -1 = any number");
  f("backupWorkers", backup_workers, "policy = sync: an update takes the first workers - backupWorkers gradients");
  f("softSync", soft_sync, "policy = mixed: so many updates for one push of every worker");
  f("servers", servers, "the last so many ranks only serve; 0 = all ranks serve beside their work");
  bits.describe(f);
  if (average) {
    if (!f.given("policy")) policy = Policy::sync;
    pipeline = false;  // averages are waited for
  }
  check(f);
}

void ServerOptions::check(config::Fields& f) const {
  for (const std::int64_t period : sync_period.values)
    if (period < 1) {
      f.problem("syncPeriod", "syncPeriod must be at least 1 sample");
      break;
    }
  if (fetch_period < 0) f.problem("fetchPeriod", "a number of samples cannot be negative");
  if (max_staleness < -1) f.problem("maxStaleness", "maxStaleness counts pushes", "write 0 or more, or -1 for any");
  if (backup_workers < 0) f.problem("backupWorkers", "a number of workers cannot be negative");
  if (soft_sync < 1) f.problem("softSync", "softSync must be at least 1");
  if (servers < 0) f.problem("servers", "a number of ranks cannot be negative");
  const bool async = policy == Policy::async, sync = policy == Policy::sync;
  if (max_staleness >= 0 && !async)
    f.problem("maxStaleness", "maxStaleness needs policy = async", "policy = sync has no staleness");
  if (pipeline && !async) f.problem("usePipeline", "usePipeline needs policy = async");
  if (pipeline && max_staleness >= 0)
    f.problem("usePipeline", "usePipeline makes every push staler than maxStaleness could tell", "keep one of the two");
  if (backup_workers > 0 && !(sync && push == Push::gradients))
    f.problem("backupWorkers", "backupWorkers needs policy = sync and push = gradients");
  else if (backup_workers > 0 && !every_minibatch)
    f.problem("backupWorkers", "with backupWorkers gradients are pushed after every minibatch", "leave syncPeriod out");
  // What one bit leaves out of a long sum is large. The worker goes on from weights that lack it and learns it once
  // more before it arrives; blocks in few bits behave so (docs/methods). Seen: 16 to 18 % errors on MNIST instead
  // of 2 %.
  if (push == Push::gradients && !every_minibatch && bits.kind == ExchangeBits::Kind::one)
    f.problem("exchangeBits",
              "in 1 bit a sum of gradients over several minibatches arrives so late that workers learn it twice",
              "exchangeBits = 2, or push = deltas, or leave syncPeriod out to push after every minibatch");
  if (f.given("softSync") && policy != Policy::mixed) f.problem("softSync", "softSync needs policy = mixed");
  if (fetch_period > 0 && sync) f.problem("fetchPeriod", "with policy = sync weights come with every push");
  if (fetch_period > 0 && pipeline) f.problem("fetchPeriod", "usePipeline fetches with every push");
  if (average && push != Push::deltas)
    f.problem("SimModelAverage", "averages are made of weights", "leave push = gradients out");
  if (average && !sync) f.problem("SimModelAverage", "averages wait for all workers", "leave policy out");
  if (average && young) f.problem("AdjustLearningRateAtBeginning", "an average has no rate to adjust");
}

}  // namespace tutti
