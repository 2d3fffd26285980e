// SPDX-License-Identifier: Apache-2.0
// method_context.h -- the inputs of a parallel method besides its options.
#pragma once

#include <cstdint>
#include <memory>

#include "collective/transport.h"
#include "tutti/communicator.h"
#include "tutti/parallel_method.h"

namespace tutti {

// Of a period, in samples per rank: far beyond any use, and times the ranks it fits into 64 bits.
inline constexpr std::int64_t kLongestPeriod = 1'000'000'000'000;

struct MethodContext {
  Communicator& comm;  // outlives the method
  std::shared_ptr<RunOptimizer> optimizer = std::make_shared<RunOptimizer>();
  ResolvedTransport transport = Transport::messages;
  std::int64_t print_every = 0;  // syncPerfStats
  // A master, rank 0, reads and moves the weights at the servers: a hierarchy of masters (groups).
  bool has_master = false;
};

}  // namespace tutti
