// SPDX-License-Identifier: Apache-2.0
// network.h -- a graph made executable: shapes inferred, memory planned, parameters initialised. One forward_backward
// per minibatch; nothing is allocated after plan().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/backend.h"
#include "tutti/graph.h"
#include "tutti/parameters.h"
#include "tutti/reader.h"

namespace tutti {

// What changes from epoch to epoch.
struct NetworkMode {
  double dropout_rate = 0;
  std::uint64_t dropout_seed = 0;  // of the epoch: epoch * random_nodes() (semantics 6), on all ranks
  // Instead of what the batch normalisation nodes say themselves, in samples.
  std::optional<double> normalization_time_constant = std::nullopt, blend_time_constant = std::nullopt;
  // Adds up over the ranks that share a minibatch, for batch normalisation with synchronized = true; null: this rank
  // works alone. Every rank calls it equally often in a step, also with an empty share.
  std::function<void(std::span<double>)> sum_over_ranks = nullptr;
};

struct NetworkOptions {
  // Nodes by name; empty = the graph's own sets. The first criterion is trained on, all evaluations are reported.
  std::string criterion;
  std::vector<std::string> evaluations;
  std::string device = "cpu";
  ComputeType compute_type = ComputeType::float32;
  bool regularize_normalization = true;  // off: scale and bias of batch normalisation are left out of L1 and L2
  bool winograd = true;  // 3 x 3 convolutions may use the algorithm with fewer multiplications and coarser rounding
  bool image_layouts = true;  // off: images stay plain; slower, to compare
  bool half_values = true;    // off: values are float32 where a device would store them in 16 bits; to compare
  bool repeat_steps = true;   // off: a device is told everything anew in each step, also what it could repeat
  bool reuse_memory = true;   // off: every value keeps memory of its own (to find faults of the planner)
};

// A criterion-like result of a minibatch or data set.
struct NodeResult {
  std::string name, operation;
};

class Network {
 public:
  // Infers shapes, orders nodes, lays out Parameters. Mistakes are ConfigErrors that name node and place.
  Network(graph::Graph graph, const NetworkOptions& options);
  ~Network();
  Network(const Network&) = delete;

  const graph::Graph& graph() const;  // with dims inferred
  Parameters& parameters();           // trained ones: what optimizers and strategies see
  void synchronize();                 // waits for the device: the host may read parameters and state
  void make_current();  // optimizers and strategies of this thread follow its device, see Backend::make_current()
  // Everything else a model must store: untrained parameters (multiplier 0), statistics of Mean and InvStdDev.
  struct State {
    std::string name;
    Shape shape;
    std::span<float> values;
  };
  std::vector<State> state();
  // Running statistics become the means over the ranks, each rank counting by the samples it has seen. `sum` adds up
  // over the ranks; every rank calls this.
  void average_statistics(const std::function<void(std::span<double>)>& sum);
  void initialize_parameters();  // semantics 5; random ones in the order of their seeds

  // The streams the network reads: name, sample elements, whether declared sparse. `needed` for the given roots.
  struct Input {
    std::string name;
    Shape shape;
    bool sparse = false;
  };
  std::vector<Input> inputs_for_training() const;
  std::vector<Input> inputs_for(const std::vector<std::string>& nodes) const;
  // Says in which order the reader delivers streams; throws ConfigError-free Error on missing or misfitting streams.
  void bind(const std::vector<StreamInfo>& streams);

  // Plans buffers and primitives for minibatches (or sub-minibatches) of up to max_columns samples.
  void plan_training(std::int64_t max_columns);
  void plan_evaluation(std::int64_t max_columns, const std::vector<std::string>& nodes);

  NodeResult criterion() const;
  std::vector<NodeResult> evaluations() const;

  void set_mode(const NetworkMode&);
  const NetworkMode& mode() const;
  // Truncated sequences: forgets what the lanes have kept; and whether steps that are run change it.
  void forget_states();
  void keep_states(bool);
  std::size_t random_nodes() const;  // nodes that draw random numbers, for the seed rule of semantics 6
  // Forward, backward. Gradients of this rank's share (sums) land in parameters().gradients and each chunk is announced
  // once it is complete and its weights are not needed any more in this step. An empty share gives zeros.
  // Shares larger than the plan are worked off in parts of equal result. Throws NumericError when the criterion is NaN.
  StepMetrics forward_backward(const Batch&, GradientSink& chunks);
  // On a device the host need not wait for a step to know its criterion: from now on forward_backward() tells what
  // criterion and evaluations were some calls earlier (samples and columns are those of the call), and
  // next_deferred_metrics() what is still missing, one step after the other. Where one is not a number, weights have
  // not changed since, and both throw DeferredNumericError. Returns whether it is so; nothing may be missing when this
  // is called.
  bool defer_metrics(bool on);
  std::optional<StepMetrics> next_deferred_metrics();
  std::int64_t measured_minibatch() const;  // whose results have come last, by Batch::minibatch
  // Throws NumericError if the criterion of this share is not a number. Running statistics may be spoilt.
  void explain_nan(const Batch&);
  // From now on gradients are computed `scale` times as large, a power of two, and divided before they are announced,
  // unless that is left to unscale_gradients().
  void scale_gradients(double scale, bool divide = true);
  // All that stand in parameters().gradients; whether all are finite: waits for the device. Until then the inputs of
  // `next` may be on their way there, if it is what forward_backward() gets next.
  bool unscale_gradients(const Batch* next);
  void clear_gradients();
  // Criterion and evaluations without training (dropout off, running statistics). The inputs of `next` may be on their
  // way to the device meanwhile, if it is what evaluate() gets next.
  StepMetrics evaluate(const Batch&, const Batch* next = nullptr);
  // Forward up to the nodes of plan_evaluation; their values (columns x elements) until the next call.
  struct Output {
    std::string name;
    Shape shape;
    std::size_t columns = 0;  // 1 for values without a sample axis
    bool per_sample = true;
    std::span<const float> values;
    // Sequences + 1 column offsets where the program knows them (networks with recurrence), else empty.
    std::span<const std::int64_t> sequence_begin;
  };
  std::vector<Output> forward(const Batch&);

  // Corpus statistics (Mean, InvStdDev) still to be computed: feed one pass over the data, then finish.
  std::vector<std::string> precompute_nodes() const;
  void precompute_begin();
  void precompute_accumulate(const Batch&);
  // `share` makes rank 0's numbers everybody's (it alone has read the data; a single process passes one that does
  // nothing): statistics do not depend on the number of ranks.
  void precompute_end(const std::function<void(std::span<float>)>& share);
  // After the weights of a model have been loaded: `loaded` is the model's graph; what it marks as computed is not
  // computed again.
  void precompute_restored(const graph::Graph& loaded);

  std::string describe() const;        // memory planned, operations fused: for the settings printed at start
  std::size_t gradient_nodes() const;  // "%d nodes with gradient" of the start-up line

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// NaN in the criterion; says which node first had a value that is not finite.
class NumericError : public Error {
 public:
  NumericError(std::string node, const std::string& message) : Error(message), node(std::move(node)) {}
  std::string node;
};

// NaN in the criterion of an earlier step.
class DeferredNumericError : public Error {
 public:
  DeferredNumericError(std::int64_t position, std::int64_t minibatch, const std::string& message)
      : Error(message), position(position), minibatch(minibatch) {}
  std::int64_t position, minibatch;  // of its Batch
};

}  // namespace tutti
