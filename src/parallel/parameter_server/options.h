// SPDX-License-Identifier: Apache-2.0
// options.h -- the block DataParallelASGD of ParallelTrain: parameter servers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "parallel/exchange_bits.h"
#include "parallel/method_context.h"
#include "tutti/communicator.h"
#include "tutti/config.h"

namespace tutti {

// AdjustLearningRateAtBeginning: a factor on pushes during warm-up.
struct YoungRate {
  enum class Shape { none, linearly, staircase };
  Shape shape = Shape::staircase;
  double coefficient = 0.1;
  std::int64_t per_minibatches = 256;

  void describe(config::Fields& f);
  double factor(std::int64_t syncs) const;  // of push number `syncs`, counted from 1
};

struct ServerOptions {
  static constexpr const char* name = "DataParallelASGD";
  static constexpr const char* help = "workers push to and fetch from parameter servers";
  enum class Policy { async, sync, mixed };
  enum class Push { deltas, gradients };
  Policy policy = Policy::async;
  Push push = Push::deltas;
  config::Schedule<std::int64_t> sync_period = 256;  // samples per worker
  bool every_minibatch = false;                      // sync_period is not given and gradients are pushed
  std::int64_t fetch_period = 0;                     // samples per worker; 0 = with every push
  bool pipeline = false;
  bool average = false;          // SimModelAverage
  bool unused_pipeline = false;  // given, but averages are waited for
  std::optional<YoungRate> young;
  std::int64_t max_staleness = -1;  // pushes of other workers that a push may miss; below 0: any number
  std::int64_t backup_workers = 0;
  std::int64_t soft_sync = 1;
  std::int64_t servers = 0;  // ranks that only serve; 0 = every rank also serves
  ExchangeBits bits;

  void describe(config::Fields& f);
  // Every push waits for those of all workers.
  bool waits_for_all() const { return policy == Policy::sync || max_staleness == 0; }
  MethodTraits traits() const;
  // Throws ConfigError if there are too few ranks.
  ParallelMethod make(const MethodContext&) const;

 private:
  void check(config::Fields& f) const;
};

}  // namespace tutti
