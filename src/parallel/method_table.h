// SPDX-License-Identifier: Apache-2.0
// method_table.h -- the table of parallel methods: name, constructor, one line of help. A new method is one more row.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/options.h"
#include "tutti/communicator.h"
#include "tutti/parallel_method.h"

namespace tutti {

// What a method is made of, beside its options. Outlives it.
struct MethodContext {
  Communicator& comm;
  std::shared_ptr<RunOptimizer> optimizer = std::make_shared<RunOptimizer>();
};

struct MethodEntry {
  MethodKind method;
  const char* name;
  ParallelMethod (*make)(const ParallelTrainOptions&, ResolvedTransport, const MethodContext&);
  const char* help;
};
const std::vector<MethodEntry>& methods();
const MethodEntry& method_entry(MethodKind);
std::vector<std::pair<std::string, MethodKind>> method_words();

// The method of the block. The options have been read without problems. Collective.
ParallelMethod make_method(const ParallelTrainOptions&, const MethodContext&);
// Whether all ranks make one update from the sum of their gradients; other methods exchange weights.
bool sums_gradients(const ParallelTrainOptions&);
// Whether ranks go each their own way within an epoch and take units as they get on.
bool uses_work_queue(const ParallelTrainOptions&);
// Whether ranks push to and fetch from servers rather than talk to each other.
bool meets_at_servers(const ParallelTrainOptions&);
// Whether what is exchanged goes in shards, over one transport or another.
bool has_transports(const ParallelTrainOptions&);
// Whether any of it travels in 32 bits.
bool travels_in_full(const ParallelTrainOptions&);
// How many of the last ranks do nothing but serve.
int ranks_that_serve(const ParallelTrainOptions&);
// Whether updates come one minibatch delayed.
bool runs_behind(const ParallelTrainOptions&);

}  // namespace tutti
