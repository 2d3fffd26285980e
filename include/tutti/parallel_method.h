// SPDX-License-Identifier: Apache-2.0
// parallel_method.h -- a parallel method: how gradients are exchanged, how weights are exchanged, how the data are
// divided, and facts about the method. Made by src/parallel/method_table.h, used by src/train.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/gradient_exchange.h"
#include "tutti/optimizer.h"
#include "tutti/weight_exchange.h"
#include "tutti/work_queue.h"

namespace tutti {

// Backup workers: a late worker skips steps.
class StepSkipper {
 public:
  virtual ~StepSkipper() = default;
  // Whether this rank computes its share, which has `samples` samples, of the next step.
  virtual bool joins_step(std::int64_t samples) = 0;
  // Returns and resets the number of samples, over all ranks, that were skipped or computed in vain; after drain().
  virtual std::int64_t dropped_samples_and_reset() = 0;
};

// The part of the data that this rank trains on.
struct DataDivision {
  // Share `rank` of `ranks` of every minibatch (no share if `rank` is -1), and of that share part `part` of `parts`.
  struct Share {
    int rank = 0, ranks = 1;
    int part = 0, parts = 1;
  };
  Share share;
  // The work queue, if the data are divided dynamically; available after the weight exchange has started. Null if ranks
  // take fixed shares. Each unit is divided as `unit_share` says.
  std::function<WorkQueue*()> work_queue = [] { return nullptr; };
  Share unit_share;
  StepSkipper* skipper = nullptr;
};

// The ranks whose step metrics are added up, and when.
struct MetricsDivision {
  Communicator* per_step = nullptr;  // in every step; null = never
  int other_groups = 0;              // number of these ranks that belong to other groups
  Communicator* at_drain = nullptr;  // when nothing is in flight; null = never
};

// How a step whose gradients are not finite is skipped (onNaN = skip, or while GradScaler searches the scale).
enum class OverflowCheck {
  reduced,        // reduced gradients are checked before the update, so all ranks see the same and skip the step
  agree,          // ranks check their local gradients before encoding, agree, and skip the step together
  exchange_zeros  // a skipped step exchanges zeros, as sums are applied a step later or at servers
};

// Facts about a method. The first group is known from its options alone.
struct MethodTraits {
  bool sums_gradients =
      false;                // all ranks make one update from the sum of their gradients; other methods exchange weights
  bool at_servers = false;  // ranks push to and fetch from parameter servers
  int serving_ranks = 0;    // number of ranks, the last ones, that only serve
  bool work_queue = false;  // ranks take work units from a queue and make different numbers of steps
  bool backup_workers = false;  // a late rank skips steps
  bool shards = false;          // values are exchanged in shards, over any transport
  bool library_sums = false;    // the MPI library sums
  bool in_full = false;         // some of the exchanged values always have 32 bits
  bool delayed = false;         // updates come one minibatch late

  std::string text;                       // for the settings printed at start
  std::string state_name;                 // the method whose state is in the archives, if not this one
  bool updates_elsewhere = false;         // servers apply the gradients, unless WeightChange::apply_gradients
  bool own_updates = false;               // ranks update with local gradients: optimizer state is per rank
  bool sums_contributions = false;        // calls ReducedGradientSink::summed() in every step
  bool sums_on_devices = false;           // sums with the library of the GPUs, during the step
  bool gradients_between_groups = false;  // gradients between groups, weights inside them
  std::string gradients_archived_as;      // prefix of the names of the gradient exchange's state
  OverflowCheck overflow = OverflowCheck::reduced;
};

class ServedWeights;  // of src/parallel/parameter_server/

// The optimizer of the run, for methods that update elsewhere: the one whose state is saved, and a factory for more.
struct RunOptimizer {
  Optimizer* now = nullptr;
  std::function<std::unique_ptr<Optimizer>()> make;
};

struct ParallelMethod {
  std::vector<std::unique_ptr<Communicator>> communicators;  // used by the parts below, which are destroyed first
  std::unique_ptr<GradientExchange> gradients;
  std::unique_ptr<WeightExchange> weights = std::make_unique<KeepWeights>();
  // The weights at the servers, for their master (MethodContext::has_master); after the weight exchange has started.
  std::function<ServedWeights*()> served_weights;
  DataDivision data;
  MetricsDivision metrics;
  Communicator* update_ranks = nullptr;  // ranks that make one update together; null = each rank alone
  MethodTraits traits;
  // The addition to the line "Starting minibatch loop" of this epoch, with a leading comma; "" without an exchange.
  std::function<std::string(std::int64_t epoch)> loop_text = [](std::int64_t) { return std::string(); };
  // Advice before a training of so many samples over all ranks; "" = none.
  std::function<std::string(std::int64_t samples)> advice = [](std::int64_t) { return std::string(); };
};

// Starts both parts. Weights are equal on all ranks at this point.
void start(ParallelMethod&, Parameters&);
void begin_epoch(ParallelMethod&, std::int64_t epoch);
// The state that the next step depends on, under the names that `traits` gives.
void archive(ParallelMethod&, Archive&, WeightExchange::Section);
// Returns and resets the statistics of this rank; complete after both parts were drained and end_epoch().
ExchangeStats exchange_stats_and_reset(ParallelMethod&);

}  // namespace tutti
