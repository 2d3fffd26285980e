// SPDX-License-Identifier: Apache-2.0
// network.h -- an executable graph: infers shapes, plans memory, initialises parameters. Call forward_backward() once
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
#include "tutti/exchange_stats.h"
#include "tutti/graph.h"
#include "tutti/parameters.h"
#include "tutti/reader.h"

namespace tutti {

// Settings that change from epoch to epoch.
struct NetworkMode {
  double dropout_rate = 0;
  std::uint64_t dropout_seed = 0;  // of the epoch: epoch * random_nodes() as in CNTK, equal on all ranks
  // Overrides the attributes of batch normalisation nodes, in samples.
  std::optional<double> normalization_time_constant = std::nullopt, blend_time_constant = std::nullopt;
  // Sums over the ranks that share a minibatch, for batch normalisation with synchronized = true; null: only this rank.
  // Every rank calls it equally often per step, even with an empty share.
  std::function<void(std::span<double>)> sum_over_ranks = nullptr;
};

// A layer that several ranks can compute together: a product of a weight with one value per sample, outside of loops.
struct DenseLayer {
  std::string weight;  // its name
  SourcePos where;
  std::size_t out = 0, in = 0;   // elements per sample
  bool sparse = false;           // the input is sparse
  bool passes_gradient = false;  // the input is computed from trained parameters
  bool softmax = false;          // feeds a softmax with cross entropy
  bool chained = false;          // its input is computed, element by element, from the result of the layer before
};

struct NetworkOptions {
  // Nodes by name; empty = the sets of the graph. The first criterion is trained, all evaluations are reported.
  std::string criterion;
  std::vector<std::string> evaluations;
  std::string device = "cpu";
  ComputeType compute_type = ComputeType::float32;
  std::shared_ptr<const KernelChoices> kernels = nullptr;  // of make_backend
  bool regularize_normalization = true;  // false: exclude scale and bias of batch normalisation from L1 and L2
  double label_smoothing = 0;            // of CrossEntropyWithSoftmax, while a minibatch is trained
  bool winograd = true;       // 3 x 3 convolutions may use Winograd, with fewer multiplications and coarser rounding
  bool image_layouts = true;  // false: keep images plain; slower, for comparison
  bool half_values = true;    // false: store float32 where a device would store 16 bits; for comparison
  bool repeat_steps = true;   // false: enqueue every step anew instead of replaying a captured one
  bool reuse_memory = true;   // false: every value has its own memory (to find faults of the planner)
  // Layers that several ranks compute together. Every rank must then run every step, also with an empty share.
  ModelParallel model_parallel = {};
};

// A result of a criterion or evaluation over a minibatch or data set.
struct NodeResult {
  std::string name, operation;
};

class Network {
 public:
  // Infers shapes, orders nodes, plans Parameters. Throws ConfigError with the node and its place for mistakes.
  Network(graph::Graph graph, const NetworkOptions& options);
  ~Network();
  Network(const Network&) = delete;

  // The dense layers of the graph in the order of evaluation, without making a network. Throws as the constructor.
  static std::vector<DenseLayer> dense_layers(graph::Graph graph, const NetworkOptions& options);

  const graph::Graph& graph() const;  // with dims inferred
  Parameters& parameters();           // the trained parameters
  void synchronize();                 // waits for the device, so that the host may read parameters and state
  void make_current();  // optimizers and exchanges of this thread use its device, see Backend::make_current()
  // The other state of a model: untrained parameters (multiplier 0) and the statistics of Mean and InvStdDev.
  struct State {
    std::string name;
    Shape shape;
    std::span<float> values;
    std::optional<ParameterShard> shard = std::nullopt;  // as of Slice
    bool is_one = false;  // a constant for which a fused GRU uses 1, whatever `values` has
  };
  std::vector<State> state();
  // Of it, what average_statistics() changes: for each node the samples seen, the mean and the variance.
  std::vector<State> running_statistics();
  // Averages running statistics over the ranks, weighted by the samples that each has seen. `sum` adds up over the
  // ranks; parts of divided layers are averaged by ModelParallel::sum_over_same_parts. Collective.
  void average_statistics(const std::function<void(std::span<double>)>& sum);
  void initialize_parameters();  // as CNTK does; random parameters in the order of their seeds

  // The input streams of the given roots: name, sample elements, whether declared sparse.
  struct Input {
    std::string name;
    Shape shape;
    bool sparse = false;
  };
  std::vector<Input> inputs_for_training() const;
  std::vector<Input> inputs_for(const std::vector<std::string>& nodes) const;
  // Sets the order in which the reader delivers streams. Throws Error for missing or mismatched streams.
  void bind(const std::vector<StreamInfo>& streams);

  // Plans buffers and primitives for minibatches (or sub-minibatches) of up to max_columns samples.
  void plan_training(std::int64_t max_columns);
  void plan_evaluation(std::int64_t max_columns, const std::vector<std::string>& nodes);

  NodeResult criterion() const;
  std::vector<NodeResult> evaluations() const;
  // Nodes that keep a criterion or evaluation from being a sum over samples: their values of the shares of a minibatch
  // do not add up to that of the whole.
  std::vector<NodeResult> indivisible_nodes() const;

  void set_mode(const NetworkMode&);
  const NetworkMode& mode() const;
  // Truncated sequences: clears the state carried between minibatches, and sets whether steps update it.
  void forget_states();
  void keep_states(bool);
  std::size_t random_nodes() const;  // nodes that draw random numbers, for CNTK's rule of seeds
  // Computes the gradients of this rank's share (sums, not means) in parameters().gradients. Announces each chunk once
  // it is complete and its weights are no longer needed in this step. An empty share gives zeros. Shares larger than
  // the plan are computed in parts, with the same result. Throws NumericError if the criterion is NaN.
  // Of the value of a term of parameters alone, this rank counts its share of the minibatch's samples; of the gradient,
  // its share of `update_samples`, those of the ranks that make one update (0 = of the minibatch).
  StepMetrics forward_backward(const Batch&, GradientSink& chunks, std::int64_t update_samples = 0);
  // Lets steps run ahead of their results on a device. Afterwards forward_backward() returns the criterion and
  // evaluations of an earlier call (samples and columns are those of the current call), and next_deferred_metrics()
  // returns the remaining results one step at a time. If a criterion is NaN, the weights have not changed since that
  // step, and both functions throw DeferredNumericError. Returns whether deferred metrics are on. Call it only when no
  // results are outstanding.
  bool defer_metrics(bool on);
  std::optional<StepMetrics> next_deferred_metrics();
  std::int64_t measured_minibatch() const;  // Batch::minibatch of the step whose results were returned last
  // Throws NumericError if the criterion of this share is NaN. May change running statistics.
  void explain_nan(const Batch&);
  // Scales gradients by `scale`, a power of two, during backward, and divides them before they are announced if
  // `divide` is true; otherwise unscale_gradients() divides them.
  void scale_gradients(double scale, bool divide = true);
  // Divides all of parameters().gradients. Returns whether all are finite; waits for the device. Meanwhile the inputs
  // of `next`, the batch of the next forward_backward(), may be uploaded.
  bool unscale_gradients(const Batch* next);
  void clear_gradients();
  // Computes criterion and evaluations without training (no dropout, running statistics). Meanwhile the inputs of
  // `next`, the batch of the next evaluate(), may be uploaded.
  StepMetrics evaluate(const Batch&, const Batch* next = nullptr);
  // Computes the nodes of plan_evaluation(). Their values (columns x elements) are valid until the next call.
  struct Output {
    std::string name;
    Shape shape;
    std::size_t columns = 0;  // 1 for values without a sample axis
    bool per_sample = true;
    std::span<const float> values;
    // sequences + 1 column offsets, those of the input on this value's axis; empty without such an input.
    std::span<const std::int64_t> sequence_begin;
  };
  std::vector<Output> forward(const Batch&);

  // Corpus statistics (Mean, InvStdDev) that are not computed yet: feed one pass over the data, then call finish.
  std::vector<std::string> precompute_nodes() const;
  void precompute_begin();
  void precompute_accumulate(const Batch&);
  // `share` broadcasts the statistics of rank 0, the only rank that has read the data, so they do not depend on the
  // number of ranks. A single process passes a function that does nothing.
  void precompute_end(const std::function<void(std::span<float>)>& share);
  // Call after the weights of a model have been loaded. Statistics that `loaded`, the graph of that model, marks as
  // computed are not computed again.
  void precompute_restored(const graph::Graph& loaded);

  // Returns and resets what layers that several ranks compute together have exchanged.
  ExchangeStats exchange_stats_and_reset();
  std::string describe() const;        // memory planned and operations fused, for the settings printed at start
  std::size_t gradient_nodes() const;  // "%d nodes with gradient" of the start-up line
  bool trains() const;                 // a gradient flows from the criterion to a trained parameter

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The criterion is NaN; names the first node with a value that is not finite.
class NumericError : public Error {
 public:
  NumericError(std::string node, const std::string& message) : Error(message), node(std::move(node)) {}
  std::string node;
};

// The criterion of an earlier step is NaN.
class DeferredNumericError : public Error {
 public:
  DeferredNumericError(std::int64_t position, std::int64_t minibatch, const std::string& message)
      : Error(message), position(position), minibatch(minibatch) {}
  std::int64_t position, minibatch;  // of its Batch
};

// Why the stream cannot feed the input of its name; nothing if it can. Without a place.
std::optional<Diagnostic> misfit(const Network::Input&, const StreamInfo&);

}  // namespace tutti
