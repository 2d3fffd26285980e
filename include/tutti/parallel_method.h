// SPDX-License-Identifier: Apache-2.0
// parallel_method.h -- a parallel method is a value: what happens to gradients, what happens to weights, how the data
// are divided, and facts about it. Made by src/parallel/method_table.h, used by src/train.
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

// Backup workers: a worker that is behind leaves steps out.
class StepSkipper {
 public:
  virtual ~StepSkipper() = default;
  // Whether this rank computes its share, of so many samples, of the step that comes now.
  virtual bool joins_step(std::int64_t samples) = 0;
  // Samples of all ranks that were computed or left out in vain since the last call; after drain().
  virtual std::int64_t dropped_samples_and_reset() = 0;
};

// Which part of the data this rank works on.
struct DataDivision {
  // Share `rank` of `ranks` of every minibatch, none if `rank` is -1; `part` of `parts` of that share.
  struct Share {
    int rank = 0, ranks = 1;
    int part = 0, parts = 1;
  };
  Share share;
  // Where shares are work units of a queue instead: known once the weight exchange has been started; null where ranks
  // take equal shares. A unit is then divided as `unit_share` says.
  std::function<WorkQueue*()> work_queue = [] { return nullptr; };
  Share unit_share;
  StepSkipper* skipper = nullptr;
};

// Whose step metrics are added up, and when.
struct MetricsDivision {
  Communicator* per_step = nullptr;  // over these ranks in every step; null = not at all
  int other_groups = 0;              // how many of them belong to other groups
  Communicator* at_drain = nullptr;  // over these ranks when nothing is in flight; null = not at all
};

// What becomes of a step whose gradients overflow, while the scale of float16 is sought (GradScaler).
enum class OverflowCheck {
  reduced,    // sums are checked before they change a weight: all ranks see the same, and skip the step
  agree,      // ranks check their own gradients before they are encoded, agree, and skip the step together
  zero_local  // as `agree`, but the step goes on, with zeros for gradients of no use
};

// Facts about a method. The first group is known from its options alone.
struct MethodTraits {
  bool sums_gradients = false;  // all ranks make one update from the sum of their gradients; others exchange weights
  bool at_servers = false;      // ranks push to and fetch from servers rather than talk to each other
  int serving_ranks = 0;        // so many of the last ranks do nothing but serve
  bool work_queue = false;      // ranks take work units as they get on, each its own way within an epoch
  bool backup_workers = false;  // a rank that is late leaves steps out
  bool shards = false;          // what is exchanged goes in shards, over one transport or another
  bool library_sums = false;    // the MPI library sums
  bool in_full = false;         // some of what is exchanged travels in 32 bits
  bool delayed = false;         // updates come one minibatch late

  std::string text;                       // for the settings printed at start
  std::string state_name;                 // whose state the archives hold, where the name of the method does not say it
  bool updates_elsewhere = false;         // servers apply the gradients, unless WeightChange::apply_gradients
  bool own_updates = false;               // ranks update with gradients of their own: optimizer state belongs to a rank
  bool sums_contributions = false;        // ReducedGradientSink::summed() is asked in every step
  bool sums_on_devices = false;           // by the library of the GPUs, in the course of a step
  bool gradients_between_groups = false;  // and weights within them
  std::string gradients_archived_as;      // prefix of the names of the gradient exchange's state
  OverflowCheck overflow = OverflowCheck::reduced;
};

// The optimizer of the run, for methods that update elsewhere: the one whose state is saved, and how to make more.
struct RunOptimizer {
  Optimizer* now = nullptr;
  std::function<std::unique_ptr<Optimizer>()> make;
};

struct ParallelMethod {
  std::vector<std::unique_ptr<Communicator>> communicators;  // of the parts below, which end first
  std::unique_ptr<GradientExchange> gradients;
  std::unique_ptr<WeightExchange> weights = std::make_unique<KeepWeights>();
  DataDivision data;
  MetricsDivision metrics;
  Communicator* update_ranks = nullptr;  // ranks that make one update together; null = each alone
  MethodTraits traits;
  // What the line "Starting minibatch loop" adds in this epoch, with a leading comma; "" without an exchange.
  std::function<std::string(std::int64_t epoch)> loop_text = [](std::int64_t) { return std::string(); };
  // What a user should know before training so many samples over all ranks; "" = nothing.
  std::function<std::string(std::int64_t samples)> advice = [](std::int64_t) { return std::string(); };
};

// Both parts. Weights are equal on all ranks by now.
void start(ParallelMethod&, Parameters&);
void begin_epoch(ParallelMethod&, std::int64_t epoch);
// What the next step depends on, under the names that `traits` says.
void archive(ParallelMethod&, Archive&, WeightExchange::Section);
// What this rank has spent since the last call; complete after the drain of both parts and end_epoch().
ExchangeStats exchange_stats_and_reset(ParallelMethod&);

}  // namespace tutti
