// SPDX-License-Identifier: Apache-2.0
// method_table.h -- the table of strategies: name, constructor, one line of help. A new strategy is one more line.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/options.h"
#include "tutti/communicator.h"
#include "tutti/strategy.h"

namespace tutti {

struct MethodEntry {
  ParallelMethod method;
  const char* name;
  // Null for methods that this version knows but does not run.
  std::unique_ptr<Strategy> (*make)(const ParallelTrainOptions&, ResolvedTransport, Communicator&);
  const char* help;
};
const std::vector<MethodEntry>& methods();
const MethodEntry& method_entry(ParallelMethod);
std::vector<std::pair<std::string, ParallelMethod>> method_words();
std::string runnable_methods();

// The strategy of the block, with parallelizationStartEpoch. The options have been read without problems; the
// communicator outlives the strategy.
std::unique_ptr<Strategy> make_strategy(const ParallelTrainOptions&, Communicator&);
// The same from the first epoch on.
std::unique_ptr<Strategy> make_method(const ParallelTrainOptions&, Communicator&);
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
// No exchange: a process without parallelTrain.
std::unique_ptr<Strategy> make_local_strategy(Communicator&);

}  // namespace tutti
