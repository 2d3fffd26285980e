// SPDX-License-Identifier: Apache-2.0
// network_impl.h -- the parts of Network: the graph with its shapes, the place of each parameter, and one executable
// per purpose. network.cpp builds them; step.cpp, precompute.cpp and initialize.cpp use them.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/deferred_results.h"
#include "graph/program.h"
#include "graph/rank_columns.h"
#include "graph/sparse_rows.h"
#include "tutti/network.h"

namespace tutti {

// A run of columns of a share or, with several dynamic axes, of sequences.
struct Part {
  std::size_t first = 0, last = 0;
};

// The columns of a stream.
struct Columns {
  std::size_t first = 0, last = 0;
};

// A program with the state of its runs.
struct Executable {
  Executable(const graph::Graph& graph, const std::vector<graph::Value>& values, const std::vector<std::size_t>& roots,
             Backend& backend, const graph::Program::Options& options)
      : program(graph, values, roots, backend, options), run(backend), roots(roots) {}
  // Allocates memory for this many columns and sets the addresses of the run.
  void plan(std::size_t columns) {
    program.plan(columns);
    program.prepare(run);
  }
  // The same; from now on larger shares are computed in parts of that size.
  void plan_parts(std::size_t columns) {
    part_columns = columns;
    plan(columns);
  }
  graph::Program program;
  graph::Run run;
  graph::SegmentReplay replay;
  std::vector<std::size_t> roots;
  std::vector<DeviceBuffer> dense;       // by tensor: uploaded streams, and sparse streams read as dense values
  graph::PackedInputs packed;            // of programs with packed order
  graph::GatheredInputs gathered;        // sparse inputs of all ranks
  std::vector<DeviceBuffer> unpacked;    // by root
  std::vector<std::vector<float>> host;  // by root: results of a device, for the host
  std::vector<Part> parts;               // of the current share; keeps its memory
  std::size_t part_columns = 0;          // a part exceeds it only for one long sequence; 0 = shares are not split
  // The batch whose dense inputs were uploaded ahead. Readers reuse the memory of batches, so the position counts as
  // well.
  struct Sent {
    const Batch* batch = nullptr;
    std::int64_t place = 0;
  } sent;
  bool was_sent(const Batch& b) const { return sent.batch == &b && sent.place == place_of(b); }
  static std::int64_t place_of(const Batch& b) {
    return b.sequence_positions.empty() ? b.position : b.sequence_positions.front();
  }
};

inline bool is_parameter(const graph::Node& node) { return node.operation == "LearnableParameter"; }

struct Network::Impl {
  graph::Graph graph;
  NetworkOptions options;
  std::unique_ptr<Backend> backend;
  std::vector<std::size_t> order;    // nodes in use
  std::vector<graph::Value> values;  // by node
  std::optional<std::size_t> criterion;
  graph::LabelSmoothing label_smoothing;
  std::vector<std::size_t> evaluations;

  Parameters parameters;
  graph::SparseRows touched;
  struct Stored {
    std::size_t node;
    FloatBuffer values;
    std::string name;
    Shape shape;
    std::optional<ParameterShard> shard = std::nullopt;
  };
  graph::Shards shards;                         // chosen by the training program
  std::vector<Stored> stored;                   // untrained parameters, statistics, and state that nodes keep
  std::vector<std::size_t> slice_of, store_of;  // by node; none if it has no such place
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  float gradient_scale = 1;
  bool divides_gradients = true;  // before they are announced
  std::shared_ptr<double[]> gradient_sum;
  std::unique_ptr<Executable> training, evaluation, output, statistics;
  std::optional<graph::DeferredResults> deferred;  // of training
  std::int64_t measured_minibatch = 0;
  NetworkMode mode;
  bool keeps_states = true;
  std::vector<StreamInfo> streams;
  std::vector<Network::Output> outputs;
  struct Statistic {
    std::size_t node;
    double count = 0;
    std::vector<float> mean, variance;
    void add(const float* x, std::size_t rows);
  };
  std::vector<Statistic> gathering;

  Impl() = default;
  Impl(graph::Graph, const NetworkOptions&);
  std::size_t find(const std::string& name) const;
  void choose_roots();
  void infer();
  void adopt_other_nodes();
  void lay_out_parameters();
  void lay_out_state();
  std::optional<ParameterShard> shard_of(std::size_t node) const;
  Shape part_of(std::size_t node) const;
  void initialize(std::size_t node, std::span<float> part) const;
  // Copies this rank's part of the values of a parameter or statistic.
  void take_own_part(std::size_t node, std::span<const float> whole, std::span<float> part) const;
  bool leaves_unregularized(std::size_t parameter) const;
  [[noreturn]] void throw_with_largest_parameter(const std::string& what) const;
  void find_sparse_sources();
  std::unique_ptr<Executable> make(const std::vector<std::size_t>& roots, const graph::Program::Options& options);
  // For training of a criterion, or forward only. `results`: the roots are the criterion and the evaluations.
  graph::Program::Options program_options(std::optional<std::size_t> trained, bool results) const;
  std::vector<std::size_t> criterion_roots() const;
  Executable& evaluating();
  std::vector<Network::Input> inputs_of(const std::vector<std::size_t>& roots) const;

  // Points the inputs of `e` at this part; allocates more memory if the part is larger than planned.
  void attach(Executable& e, const Batch&, const Part&);
  // Collective for programs of which several ranks compute layers together.
  const std::vector<Part>& parts(Executable& e, const Batch&);
  void divide_share(Executable& e, const Batch&);  // into e.parts
  void join_ranks(Executable& e, const Batch&);
  void join_backward(Executable& e);
  void clear_dense_gradients();
  void attach_input(Executable& e, std::size_t tensor, const Batch&, const Part&);
  void number_sequences(Executable& e, const Batch&, const Part&);
  void number_columns(Executable& e, std::size_t axis, const StreamData&, const Batch&, const Columns&);
  // The columns of a dense stream in device memory; `there`: they have been uploaded.
  const float* at_backend(Executable& e, std::size_t tensor, const StreamData&, const Columns&, bool there);
  // Uploads the dense inputs of the next batch, if it is computed in one part.
  void send(Executable& e, const Batch&);
  void attach_sequences(Executable& e, std::size_t tensor, const StreamData&, const Part&);
  // rank_columns.cpp: the columns of all ranks, for layers that they compute together. Collective.
  void attach_ranks(Executable& e);
  // Axis `own` has counts[q * step] columns on rank q.
  void set_columns_of_ranks(Executable& e, std::size_t own, std::span<const std::int64_t> counts, std::size_t step);
  // For Run::on_axis.
  void gather_columns(Executable& e, std::size_t own);
  void equalize_parts(Executable& e);  // adds empty parts, so that every rank has as many
  void number_samples_of_ranks(Executable& e, std::size_t axis);
  bool divided() const {
    const ModelParallel& m = options.model_parallel;
    return m.ranks && m.ranks->size() > 1 && !m.layers.empty();
  }
  std::span<const std::int64_t> sequences_of(const Executable& e, const Batch& batch, std::size_t axis);
  const float* in_stream_order(Executable& e, std::size_t root, const graph::Operand& o);
  // Adds the results of the roots of `e` for a part: the one that ran last, or one whose sums were kept.
  StepMetrics no_metrics(std::int64_t samples = 0) const {
    return {.samples = samples,
            .columns = samples,
            .evaluations = std::vector<StepMetrics::Evaluation>(evaluations.size())};
  }
  void metrics(Executable& e, StepMetrics& t) const { metrics(e, e.run.columns, e.run.sums.get(), t); }
  void metrics(Executable& e, std::span<const std::size_t> columns, const double* sums, StepMetrics&) const;
  double total(Executable& e, std::size_t node, const graph::Operand& value, const double* sums) const;
  bool can_defer_metrics() const;
  void keep_results(Executable& e);
  void finish_earliest(StepMetrics&);
  // Device values as the host can read them: the same memory, or a copy in `workspace`.
  std::span<const float> on_host(const float* values, std::size_t count, std::vector<float>& workspace) const;
  // Where a NaN was first seen. `order`: position in the forward pass, inputs first; the smallest over all ranks is
  // reported.
  struct NotFinite {
    static constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
    std::int64_t order = last;
    std::string node, what;
  };
  [[noreturn]] void report_not_finite(Executable& e, const Batch&, const Part&, std::size_t root);
  NotFinite find_not_finite(Executable& e, const Batch&, const Part&, std::size_t root);
  NotFinite first_of_ranks(NotFinite mine);
  // True if `mine` is true on any rank that shares layers; `mine` itself without divided layers. Collective; allocates
  // nothing.
  bool on_any_rank(Executable& e, bool mine) const;
};

}  // namespace tutti
