// SPDX-License-Identifier: Apache-2.0
// method_context.h -- the inputs of a parallel method besides its options.
#pragma once

#include <cstdint>
#include <memory>

#include "collective/transport.h"
#include "tutti/communicator.h"
#include "tutti/parallel_method.h"

namespace tutti {

struct MethodContext {
  Communicator& comm;  // outlives the method
  std::shared_ptr<RunOptimizer> optimizer = std::make_shared<RunOptimizer>();
  ResolvedTransport transport = Transport::messages;
  std::int64_t print_every = 0;  // syncPerfStats
};

}  // namespace tutti
