// SPDX-License-Identifier: Apache-2.0
// block_options.h -- the blocks of ParallelTrain for methods that exchange weights.
#pragma once

#include <cstdint>
#include <memory>

#include "collective/transport.h"
#include "parallel/exchange_bits.h"
#include "parallel/local_sgd/block_rules.h"
#include "parallel/local_sgd/fragments.h"
#include "parallel/method_context.h"
#include "tutti/communicator.h"
#include "tutti/config.h"

namespace tutti {

// Samples between two exchanges, given by one of two keys: over all ranks, or per rank.
struct BlockSize {
  std::int64_t per_worker = 0, total = 0;  // total: 0 = not given

  void describe(config::Fields& f);
  std::int64_t all(int ranks) const { return total > 0 ? total : per_worker * ranks; }
  double mean(int ranks) const { return static_cast<double>(all(ranks)) / ranks; }       // per rank
  std::int64_t each(int ranks) const { return total > 0 ? total / ranks : per_worker; }  // the same, rounded down
};

// Weights that are exchanged in fragments while training continues.
struct StreamOptions {
  StreamSettings settings;
  void describe(config::Fields& f);
};

struct ModelAveragingOptions {
  static constexpr const char* name = "ModelAveragingSGD";
  static constexpr const char* help = "weights are averaged every so often";
  bool given = false;  // the block is in the config; without it weights are averaged after every minibatch
  BlockSize block{40000};
  ExchangeBits bits;
  StreamOptions stream;
  void describe(config::Fields& f);
  MethodTraits traits() const;
  ParallelMethod make(const MethodContext&) const;
};

struct BlockMomentumOptions {
  static constexpr const char* name = "BlockMomentumSGD";
  static constexpr const char* help = "averaged weights are smoothed block by block";
  static constexpr const char* without_block =
      "add BlockMomentumSGD = [ blockSizePerWorker = 120000 ] to ParallelTrain";
  bool given = false;
  BlockSize block{120000};
  ExchangeBits bits;
  StreamOptions stream;
  bool reset_sgd_momentum = true;
  bool reset_given = false;
  bool nesterov = true;
  double learning_rate = 1;
  double time_constant = -1;  // samples over all ranks; below 0 = not given
  double per_sync = -1;       // below 0 = not given
  OuterTerms outer{OuterOptimizer::block_momentum};

  void describe(config::Fields& f);
  double momentum(int ranks) const;                  // per block
  double time_constant_per_worker(int ranks) const;  // samples
  MethodTraits traits() const;
  ParallelMethod make(const MethodContext&) const;

 private:
  void describe_outer(config::Fields& f);
};

}  // namespace tutti
