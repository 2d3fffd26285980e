// SPDX-License-Identifier: Apache-2.0
// asa_options.h -- the blocks of ParallelTrain for the methods of Theano-MPI: ASA and EASGD.
#pragma once

#include <memory>

#include "collective/transport.h"
#include "parallel/exchange_bits.h"
#include "parallel/method_context.h"
#include "tutti/communicator.h"

namespace tutti {

struct AsaOptions {
  static constexpr const char* name = "ASA";
  static constexpr const char* help = "gradients or weights are exchanged all-to-all, summed and gathered";
  enum class What { gradients, weights };
  enum class AllReduce { sharded, library };
  What what = What::gradients;
  AllReduce all_reduce = AllReduce::sharded;
  ExchangeBits bits;
  void describe(config::Fields& f);
  MethodTraits traits() const;
  ParallelMethod make(const MethodContext&) const;
};

struct EasgdOptions {
  static constexpr const char* name = "EASGD";
  static constexpr const char* help = "elastic averaging between the ranks and a center variable";
  enum class Policy { sync, async };
  enum class Division { work_queue, shares };
  double moving_rate = -1;  // below 0: 0.9 / ranks
  std::int64_t period = 10;
  Policy policy = Policy::sync;
  // Of the asynchronous form.
  std::int64_t servers = 0;
  Division division = Division::work_queue;
  ExchangeBits bits;
  void describe(config::Fields& f);
  MethodTraits traits() const;
  ParallelMethod make(const MethodContext&) const;
  double rate(int ranks) const { return moving_rate >= 0 ? moving_rate : 0.9 / ranks; }
};

}  // namespace tutti
